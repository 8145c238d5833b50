"""What the paper compares with or mentions: other architectures, experts, a limited window."""

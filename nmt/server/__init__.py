"""HTTP API and web page for trained models."""

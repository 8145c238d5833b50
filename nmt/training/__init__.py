"""From a corpus to a trained model."""

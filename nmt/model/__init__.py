"""The encoder-decoder Transformer, and the architectures that it is compared with."""

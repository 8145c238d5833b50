"""The command `python -m nmt`, which is the same as `nmt`."""

from nmt.cli.main import main

main()

"""Write the golden losses again; a change of them belongs in the message of its commit.

python -m tests.golden.refresh
"""

import tempfile
from pathlib import Path

import torch

from nmt.base.files import read_json, write_json
from nmt.model.cpu_library import select_library
from tests.golden.run import GOLDEN_FILE, MODELS, golden_losses


def main() -> None:
    torch.set_num_threads(1)
    select_library("torch")
    before = read_json(GOLDEN_FILE) if GOLDEN_FILE.is_file() else {}
    losses = {}
    for name in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            found = golden_losses(name, Path(folder))
        losses[name] = {key: [round(value, 7) for value in found[key]] for key in found}
        was = before.get(name, {}).get("train/loss", [float("nan")])[-1]
        print(f"{name}: last training loss {was:.6f} -> {losses[name]['train/loss'][-1]:.6f}")
    write_json(GOLDEN_FILE, losses)
    print(f"written: {GOLDEN_FILE}")


if __name__ == "__main__":
    main()

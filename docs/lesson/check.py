"""Check the file of an exercise."""

import importlib.util
import traceback
from pathlib import Path

from docs.lesson.exercises import EXERCISES
from nmt.base.errors import UserError, first_line

TEMPLATES = Path(__file__).with_name("templates")


def check(number: int, folder: Path) -> str:
    """Check the file of an exercise, which is made from its template if it is missing.

    Returns:
        What to do or to look at next.

    Raises:
        UserError: the function is missing or wrong.
    """
    if number not in EXERCISES:
        raise UserError(f"exercise={number}: the lesson has the exercises 1 to {len(EXERCISES)}")
    exercise, path = EXERCISES[number], folder / f"exercise_{number}.py"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes((TEMPLATES / path.name).read_bytes())
        return f"wrote {path}: write the function {exercise.name} there, then run this again"
    try:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        fault = exercise.fault(getattr(module, exercise.name))
    except NotImplementedError:
        fault = "is not written yet"
    except SyntaxError as error:
        raise UserError(f"{path}, line {error.lineno}: {error.msg}") from error
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f", line {frame.lineno}" for frame in frames if frame.filename == str(path)]
        where, kind = "".join(lines[-1:]), type(error).__name__
        raise UserError(f"{path}{where}: {kind}: {first_line(error)}") from error
    if fault:
        raise UserError(f"{path}: {exercise.name} {fault}; see docs/lesson.md, {exercise.sections}")
    return f"exercise {number} is right; now look at {exercise.look}"

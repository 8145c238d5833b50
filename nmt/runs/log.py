"""Messages of a run, on stderr and in its log file."""

import logging
import sys
from contextlib import suppress
from pathlib import Path

from nmt.base.errors import PrintableFormatter
from nmt.base.files import writing


class _Screen(logging.StreamHandler):
    """Writes to the present `sys.stderr`, which progress bars replace."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, except those that a progress bar shows."""
        self.stream = sys.stderr
        if not (hasattr(record, "file_only") and self.stream.isatty()):
            super().emit(record)


class _LogFile(logging.FileHandler):
    """A log file that survives a full disk: it reports the error once and keeps trying to write."""

    _is_reported = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - name set by logging
        """Report an error of `emit`."""
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._is_reported:
            self._is_reported = True
            message = f"{self.baseFilename}: lines will be missing ({error.strerror})"
            with suppress(OSError):
                print(message, file=sys.stderr)

    def close(self) -> None:
        """Close the file; what cannot be flushed is lost."""
        with suppress(OSError):
            super().close()


def set_up_logging(log_file: Path | None = None) -> None:
    """Send messages to stderr, and with the time to `log_file`."""
    handlers: list[logging.Handler] = [_Screen()]
    handlers[0].setFormatter(PrintableFormatter("%(message)s"))
    if log_file is not None:
        with writing(log_file):
            log_file.parent.mkdir(parents=True, exist_ok=True)
            handlers.append(_LogFile(log_file, encoding="utf-8"))
        handlers[1].setFormatter(PrintableFormatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("nmt")
    for handler in logger.handlers:
        handler.close()
    logger.handlers = handlers
    logger.setLevel(logging.INFO)
    logger.propagate = False

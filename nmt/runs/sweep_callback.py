"""Report of a sweep at its end."""

import traceback
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from nmt.base.errors import UserError
from nmt.evaluation.records import Status
from nmt.runs.log import converted_errors, print_error


class RankedTable(Callback):
    """Hydra callback that reports the sweep at the end of `--multirun`."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Write the report, except after dry runs, and exit with status 2 if runs have failed.

        Any other error ends the command, too: Hydra turns an Exception of a callback into a
        warning.
        """
        # Hydra makes the callback in every command, and torch takes seconds.
        from nmt.runs.sweep import write_sweep_report  # noqa: PLC0415

        del kwargs
        if OmegaConf.select(config, "run.dry_run"):
            return
        hydra_config = config.hydra if "hydra" in config else HydraConfig.get()
        try:
            with converted_errors():
                sweep = write_sweep_report(Path(hydra_config.sweep.dir))
        except UserError as error:
            print_error(str(error))
            raise SystemExit(error.exit_status) from None
        except Exception:
            print_error(traceback.format_exc())
            raise SystemExit(1) from None
        failed = [run.name for run in sweep.runs if run.status is Status.failed]
        if failed:
            print_error(
                f"{len(failed)} of {len(sweep.runs)} runs failed: {', '.join(failed)};"
                " report.html has their last lines, and the same command tries them again"
            )
            raise SystemExit(UserError.exit_status)

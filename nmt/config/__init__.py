"""Configuration: one dataclass per group with types, defaults, bounds and documentation.

YAML files in `conf/` are presets of these dataclasses and hold no defaults. Only the code
around Hydra handles a `DictConfig`; all other code takes these dataclasses.
"""
# ruff: noqa: F403

from nmt.config.batching import *
from nmt.config.cleaning import *
from nmt.config.corpus import *
from nmt.config.decoding import *
from nmt.config.evaluation import *
from nmt.config.experiment import *
from nmt.config.fields import *
from nmt.config.files import *
from nmt.config.model import *
from nmt.config.optimizer import *
from nmt.config.table3 import *
from nmt.config.tokenizer import *
from nmt.config.training import *
from nmt.config.translation import *

"""`python -m comlrl_envs` is `comlrl-envs`."""

import sys

from comlrl_envs.cli import main

sys.exit(main())

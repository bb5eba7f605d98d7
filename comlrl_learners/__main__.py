"""`python -m comlrl_learners` is `comlrl-train`."""

import sys

from comlrl_learners.cli import main

sys.exit(main())

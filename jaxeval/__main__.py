"""`python -m jaxeval`: see `jaxeval.cli`."""

import sys

from jaxeval.cli import main

sys.exit(main())

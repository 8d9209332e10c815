"""`python -m ottla.cli`."""

import sys

from ottla.cli import main

sys.exit(main())

"""``python -m instantstart_sandbox``."""

import sys

from instantstart_sandbox.main import main

sys.exit(main())

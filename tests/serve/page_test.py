"""The page of `kinema serve` in a browser: python3 tests/serve/page_test.py [Class[.test]]

Without KINEMA_SERVE_URL (the link with the token that `kinema serve` prints) it drives the stand-in of this folder.
KINEMA_SCREENSHOTS is a folder for pictures of what was seen, KINEMA_PATIENCE the seconds to wait for a result. Packages
are in requirements.txt; without them, or without chromium and chromium-driver, it is skipped (exit status 77).
"""

import unittest

from gallery_page import Gallery, TenThousand
from looks_page import Looks
from make_page import Make, Restart
from train_page import Models, Train

__all__ = ["Gallery", "Looks", "Make", "Models", "Restart", "TenThousand", "Train"]

if __name__ == "__main__":
    unittest.main(verbosity=2)

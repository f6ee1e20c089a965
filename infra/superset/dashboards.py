"""All pages of the dashboards; `assets.py` writes them as YAML.

Every dataset has the columns of KEYS, for filters and for row-level security by country.
"""

from infra.superset.channel import CHANNEL
from infra.superset.options import OPTIONS_PAGE
from infra.superset.overview import OVERVIEW
from infra.superset.peak import PEAK_PAGE
from infra.superset.setup_page import SETUP
from infra.superset.transfers import TRANSFERS
from infra.superset.why import WHY

DASHBOARDS = (PEAK_PAGE, OVERVIEW, WHY, SETUP, CHANNEL, TRANSFERS, OPTIONS_PAGE)

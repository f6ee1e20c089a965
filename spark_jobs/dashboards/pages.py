"""All pages of the dashboards; `assets.py` writes them for Superset.

Every dataset has the columns of KEYS, for filters and for row-level security by country.
"""

from spark_jobs.dashboards.channel import CHANNEL
from spark_jobs.dashboards.options import OPTIONS_PAGE
from spark_jobs.dashboards.overview import OVERVIEW
from spark_jobs.dashboards.peak import PEAK_PAGE
from spark_jobs.dashboards.setup_page import SETUP
from spark_jobs.dashboards.transfers import TRANSFERS
from spark_jobs.dashboards.why import WHY

DASHBOARDS = (PEAK_PAGE, OVERVIEW, WHY, SETUP, CHANNEL, TRANSFERS, OPTIONS_PAGE)

"""Import without the garbage collector, which is off from the import of this module on.

While thousands of functions are imported, the collector would look at them again and again. The
workers' server imports this module first; its workers turn the collector on (see `processes`).
"""

import gc

gc.disable()

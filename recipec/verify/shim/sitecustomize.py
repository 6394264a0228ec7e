"""Python runs this file first when its folder is on PYTHONPATH: it makes a CPU stand in for the planned hardware.

The bundle's files stay as they are. What is changed is in cpu_stand_in/, one small function per library module, and
only what CPU_STAND_IN (JSON, written by recipec.verify) asks for.
"""

import os

if "CPU_STAND_IN" in os.environ:
    from cpu_stand_in import install

    install(os.environ["CPU_STAND_IN"])

"""The Celery task of the poll lane: a bell, answered on this process's event loop."""

from scalers.services import measuring
from workers.app import LANES, app
from workers.process import Process
from workers.serving import serve
from workers.settings import Settings

process = Process(lambda: measuring(Settings()))


@app.task(name=LANES["poll"][0])
def poll() -> None:
    """Look into the poll lane."""
    process.run(lambda drain: drain.bell())


serve("poll", process)

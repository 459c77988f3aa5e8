"""Tasks: what is to be controlled. `make_task` turns a name, an id, a factory or an environment into a `Task`."""

from abps.tasks.spec import TaskSpec as TaskSpec

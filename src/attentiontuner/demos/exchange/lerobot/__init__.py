"""LeRobot data sets, version 3.0, in and out. `lerobot` itself is not needed."""

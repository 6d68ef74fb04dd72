"""The kubelet of every node: pods as state machines on the virtual clock, with real log files and, on request, real processes."""

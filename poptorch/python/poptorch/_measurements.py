"""What an executor tells of the time and the memory that its model takes."""


class Measurements:
    """Members of an executor that tell of the time of its latest call and of its memory."""

    def getPerfCounters(self):
        """Seconds at which each input was asked for and arrived, and each output was ready and reached the host.

        A dict of "input", "input_complete", "output" and "output_complete": per tensor a list of one number for each
        micro-batch (of outputs: that is returned) and replica. Only differences of these numbers have a meaning."""
        with self._lock:
            return self._session.perf_counters()

    def getLatency(self):
        """(minimum, maximum, average) seconds from the first request of an input to the last output written."""
        with self._lock:
            return self._session.latency()

    def getHostIpuLatency(self):
        """The same from the first request of an input until all inputs have arrived."""
        with self._lock:
            return self._session.host_ipu_latency()

    def getComputeLatency(self):
        """The same from the arrival of the last input until all outputs are ready."""
        with self._lock:
            return self._session.compute_latency()

    def getIpuHostLatency(self):
        """The same from the first output that is ready until all are written."""
        with self._lock:
            return self._session.ipu_host_latency()

    def cycleCount(self):
        """Cycles of the first replica in the latest call, with options.logCycleCount(True): those that a clock of
        1.85 GHz makes in the time that was measured without transfers."""
        with self._lock:
            return self._session.cycle_count(self._options._store)

    def memoryFootprint(self):
        """What the compiled model takes of each device's memory, as planned: a dict for each device.

        "kinds": bytes of weights, optimiser state, gradient accumulators, buffers, constants, stashes, and of activations
        and scratch at the peak of its memory; "total", "always_live" and "off_device" bytes; "budget" of
        options.setMemoryBudget, 0 without one; "buffers" at the peak, largest first: dicts of "kind", "bytes", "name"
        (of a parameter, or the op that makes it, its module and line), "type" and "always_live"."""
        with self._lock:
            return self._session.memory_footprint()

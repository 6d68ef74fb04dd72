"""The small model server behind serving pods: it takes the arguments of vLLM and SGLang, speaks their APIs and has their metrics.

Only the standard library is used, since there may be one process for each pod: ``web`` (HTTP), ``moments`` (the sandbox's clock),
``flags``, ``vllm`` and ``sglang`` (arguments), ``models`` (what a model needs, and why it cannot be had), ``words`` (what it answers),
``engine`` (queue, cache and timing), ``gauges`` (metrics), ``openai`` and ``native`` (the APIs), ``spoiling`` (being slow or broken on
request). No model is run: an answer is made of the question and is the same each time.
"""

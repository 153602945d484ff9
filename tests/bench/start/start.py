"""start.py TIMES COMMAND...: runs the commands (one word each, in quotes) in turn; medians of wall time, processor time and
peak of resident memory (not below this script's own), from the start of each process to its end.

    cd tests/bench/start && cmake --install ../../../build/release --prefix /tmp/prefix
    L=/tmp/prefix/lib/x86_64-linux-gnu  # on Debian; else /tmp/prefix/lib
    c++ -std=c++20 -O2 -I/tmp/prefix/include ours.cpp -o ours -L$L -ltapestry -ltapestry-engine -Wl,-rpath,$L
    c++ -std=c++20 -O2 -I/usr/include/onnxruntime onnx.cpp -o onnx -lonnxruntime
    python3 models.py RUN_OF_SHAKESPEARE_CHAR RUN_OF_CLOTHES_VAE
    export PYTHONPATH=/tmp/prefix/lib/python3/dist-packages  # for "python3 ours_python.py RUN_OF_SHAKESPEARE_CHAR"
    python3 start.py 31 "./ours RUN_OF_SHAKESPEARE_CHAR" "./onnx gpt.onnx" "python3 onnx_python.py gpt.onnx"

The C++ library of onnxruntime is in its wheel (onnxruntime/capi/libonnxruntime.so.*), its headers in Debian 13's
libonnxruntime-dev."""
import os
import shlex
import statistics
import subprocess
import sys
import time

times, commands = int(sys.argv[1]), sys.argv[2:]
measured = {command: [] for command in commands}
for _ in range(times + 1):
    for command in commands:
        begin = time.perf_counter()
        process = subprocess.Popen(shlex.split(command), stdout=subprocess.PIPE, text=True)
        output = process.stdout.read().strip()
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = status
        if status != 0:
            sys.exit(f"{command}: ended with status {status}")
        measured[command].append((seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, output))
for command, runs in measured.items():
    wall, cpu, peak, outputs = zip(*runs[1:])  # the first fills the caches of the system
    print(f"{statistics.median(wall) * 1e3:7.1f} ms ({min(wall) * 1e3:.1f} to {max(wall) * 1e3:.1f})"
          f" {statistics.median(cpu) * 1e3:7.1f} ms of processors {statistics.median(peak):6.1f} MiB  {command}  -> {outputs[0]}")

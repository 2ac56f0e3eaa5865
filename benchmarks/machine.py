"""What the figures were measured on: processor, system, versions, and what could disturb them."""

import importlib.metadata
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

PACKAGES = ("numpy", "llvmlite", "scipy", "scipy-openblas32", "jax", "jaxlib", "torch")
PREFIXES = ("COVECTOR_", "JAX_", "XLA_", "OPENBLAS_", "OMP_", "MKL_")


def output(*command: str) -> str:
    """What a command prints, or nothing if it is missing or fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def processor() -> str:
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return output("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor()
    fields: dict[str, str] = {}
    for line in info.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    flags = fields.get("flags", fields.get("Features", "")).split()
    vectors = [flag for flag in ("avx512f", "avx2", "fma", "asimd") if flag in flags]
    model = f"family {fields.get('cpu family', '?')} model {fields.get('model', '?')}"
    return f"{fields.get('model name', platform.machine())}, {model}; {', '.join(vectors)}"


def memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return "unknown"
    return f"{size / 2**30:.0f} GiB"


def load() -> str:
    """Processes that wanted to run, by the system's averages: the machine should be idle."""
    if not hasattr(os, "getloadavg"):
        return "unknown"
    return "{:.1f} (1 minute), {:.1f} (15 minutes)".format(*os.getloadavg()[::2])


def installed(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def describe(threads: int) -> dict[str, str]:
    """Facts by name, to print beside the results."""
    commit = output("git", "rev-parse", "--short=12", "HEAD")
    changed = output("git", "status", "--porcelain", "--untracked-files=no")
    settings = {k: v for k, v in sorted(os.environ.items()) if k.startswith(PREFIXES)}
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": (commit or "unknown") + (" with uncommitted changes" if changed else ""),
        "processor": processor(),
        "cores": str(os.cpu_count()),
        "threads for each side": str(threads),
        "memory": memory(),
        "system": platform.platform(),
        "Python": platform.python_version(),
        **{package: installed(package) for package in PACKAGES},
        "environment": " ".join(f"{k}={v}" for k, v in settings.items()) or "nothing set",
        "load at the start": load(),
    }

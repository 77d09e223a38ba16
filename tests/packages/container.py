#!/usr/bin/env python3
"""Checks the container files: every setting in them is one that the program accepts, and every command is one of its own.

    tests/packages/container.py [--binary target/debug/grandstand]

It needs neither Docker nor podman; `image.py` builds the image and tries it. The manifests in `config/kubernetes` are
put together by `kubectl kustomize`, and compared with the schemas of Kubernetes (PyPI: kubernetes-validate, installed
below target/kubernetes).
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from steps import ROOT, check

CONTAINER = ROOT / "config" / "container"
KUBERNETES = ROOT / "config" / "kubernetes"
# What kustomize puts together; the fleet has both others in it.
OVERLAYS = ["mirror", "replicas", "fleet"]
VALIDATOR = "kubernetes-validate==1.37.0"


def accepts(binary, environment, what):
    """Whether `grandstand check` accepts these variables."""
    given = {"PATH": os.environ["PATH"], **environment}
    ran = subprocess.run([binary, "check"], env=given, capture_output=True, text=True, check=False)
    said = "" if ran.returncode == 0 else ran.stderr
    check(ran.returncode == 0, f"{what}: the program accepts {', '.join(sorted(environment))} {said}".rstrip())


def knows(binary, words, what):
    """Whether the program knows these arguments."""
    ran = subprocess.run([binary, *words, "--help"], capture_output=True, text=True, check=False)
    check(ran.returncode == 0 and "Usage: grandstand" in ran.stdout, f"{what}: the program knows {' '.join(words)}")


def dockerfile(binary):
    text = (CONTAINER / "Dockerfile").read_text()
    # A builder removes quotes as a shell does.
    settings = {name: shlex.split(value)[0] for name, value in re.findall(r"^ENV (GRANDSTAND__\w+)=(.+)$", text, re.M)}
    accepts(binary, settings, "Dockerfile")
    health = json.loads(re.search(r"^HEALTHCHECK .*CMD (\[.+\])$", text, re.M)[1])
    command = json.loads(re.search(r"^CMD (\[.+\])$", text, re.M)[1])
    entry = json.loads(re.search(r"^ENTRYPOINT (\[.+\])$", text, re.M)[1])
    check(entry == health[:1], "Dockerfile: the health check asks the same program")
    knows(binary, health[1:], "Dockerfile")
    knows(binary, command, "Dockerfile")
    for source in re.findall(r"^COPY --from=build .*?(/source/\S+) ", text, re.M):
        check(source == "/source/target/release/grandstand", f"Dockerfile: {source} is what cargo builds")
    check(re.search(r"^USER nonroot$", text, re.M) and ":nonroot" in text, "Dockerfile: it runs without rights")
    ignored = [line for line in (CONTAINER / "Dockerfile.dockerignore").read_text().splitlines() if not line.startswith("#")]
    check("target" in ignored and not any(line.startswith("/") for line in ignored),
          "Dockerfile.dockerignore: the build leaves out target/, with podman too")
    return settings


def compose(binary, settings):
    try:
        import yaml
    except ImportError:
        print("SKIPPED: python3-yaml is missing. compose.yaml was NOT checked.")
        return
    text = (CONTAINER / "compose.yaml").read_text()
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)
    services = yaml.safe_load(text)["services"]
    ours = {name: service for name, service in services.items() if service["image"] == "grandstand"}
    check({"mirror", "replica"} <= set(ours) and {"redis", "store"} <= set(services), "compose.yaml: the fleet is complete")
    for name, service in ours.items():
        if "command" in service:
            knows(binary, service["command"], f"compose.yaml: {name}")
        environment = {key: value for key, value in service.get("environment", {}).items() if key.startswith("GRANDSTAND__")}
        accepts(binary, {**settings, **environment}, f"compose.yaml: {name}")
        for other in service.get("depends_on", {}):
            check(other in services, f"compose.yaml: {name} waits for {other}, which is there")
    for name, service in services.items():
        image = service["image"]
        check(image == "grandstand" or re.search(r":v?[\w.-]*\d[\w.-]*$", image), f"compose.yaml: {name} has an image with a version")
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            check(not source.startswith(".") or (CONTAINER / source).exists(), f"compose.yaml: {name} finds {source}")
    scraped = yaml.safe_load((CONTAINER / "prometheus.yml").read_text())["scrape_configs"]
    targets = [target.split(":")[0] for job in scraped for kind in ("static_configs", "dns_sd_configs") for config in job.get(kind, [])
               for target in config.get("targets", config.get("names", []))]
    check(set(targets) == {"mirror", "replica"}, "prometheus.yml: it asks the mirror and the replicas")
    if shutil.which("promtool"):
        ran = subprocess.run(["promtool", "check", "config", "--syntax-only", CONTAINER / "prometheus.yml"], capture_output=True, check=False)
        check(ran.returncode == 0, f"prometheus.yml: promtool accepts it {ran.stderr.decode()}".rstrip())
    for name in set(targets):
        environment = services[name]["environment"]
        check(environment["GRANDSTAND__ADMIN__LISTEN"] == "0.0.0.0:9090", f"compose.yaml: Prometheus reaches {name}")


def follows_schemas(name, documents):
    import yaml

    home = ROOT / "target" / "kubernetes"
    mark = home / "installed"
    if not mark.exists() or mark.read_text() != VALIDATOR:
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=False).returncode == 0
        if not made or subprocess.run([home / "bin" / "pip", "install", "--quiet", VALIDATOR], check=False).returncode != 0:
            print(f"SKIPPED: {VALIDATOR} cannot be installed. {name} was NOT compared with the schemas.")
            return
        mark.write_text(VALIDATOR)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        # A kind that an operator adds is not among the schemas.
        yaml.safe_dump_all([one for one in documents if one["kind"] != "PodMonitor"], file)
        ran = subprocess.run([home / "bin" / "kubernetes-validate", "--strict", file.name], capture_output=True, text=True, check=False)
    check(ran.returncode == 0, f"{name}: it follows the schemas {ran.stdout if ran.returncode else ''}".rstrip())


def kubernetes(binary, settings):
    try:
        import yaml
    except ImportError:
        print("SKIPPED: python3-yaml is missing. The manifests of Kubernetes were NOT checked.")
        return
    if not shutil.which("kubectl"):
        print("SKIPPED: kubectl is missing. The manifests of Kubernetes were NOT checked.")
        return
    for name in OVERLAYS:
        built = subprocess.run(["kubectl", "kustomize", KUBERNETES / name], capture_output=True, text=True, check=False)
        check(built.returncode == 0, f"{name}: kustomize puts it together {built.stderr}".rstrip())
        documents = list(yaml.safe_load_all(built.stdout))
        follows_schemas(name, documents)
        pods = {document["metadata"]["name"]: document["spec"]["template"] for document in documents if "template" in document["spec"]}
        check(len(pods) == (2 if name == "fleet" else 1), f"{name}: its pods are {' and '.join(pods)}")
        of_kind = lambda kind: [document["spec"] for document in documents if document["kind"] == kind]  # noqa: E731
        urls = {}
        for part, pod in pods.items():
            what = f"{name}: {part}"
            [container] = pod["spec"]["containers"]
            environment = {one["name"]: one["value"] for one in container["env"] if one["name"].startswith("GRANDSTAND__")}
            urls.update({key: value for key, value in environment.items() if key.endswith(("PUBLISH__URL", "REPLICA__URL"))})
            with tempfile.NamedTemporaryFile("w", suffix=".token") as token:
                token.write("0123456789abcdef0123")
                token.flush()
                if "GRANDSTAND__ADMIN__TOKEN_FILE" in environment:
                    environment["GRANDSTAND__ADMIN__TOKEN_FILE"] = token.name
                accepts(binary, {**settings, **environment}, what)
            knows(binary, container["args"], what)
            ports = {port["name"]: port["containerPort"] for port in container["ports"]}
            listen = [settings["GRANDSTAND__LISTEN"], environment["GRANDSTAND__ADMIN__LISTEN"]]
            check(all(f":{port}" in address for port, address in zip([ports["http"], ports["admin"]], listen)),
                  f"{what}: its ports are those of the listeners")
            labels = pod["metadata"]["labels"]
            finding = [one for one in of_kind("Service") if one["selector"].items() <= labels.items()]
            check(len(finding) == 1, f"{what}: one service finds it")
            for monitor in of_kind("PodMonitor"):
                found = monitor["selector"]["matchLabels"].items() <= labels.items()
                check(found and all(one["port"] in ports for one in monitor["podMetricsEndpoints"]), f"{what}: its metrics are found")
        if name == "fleet":
            check(len(urls) == 2 and len(set(urls.values())) == 1, "fleet: the replicas follow what the mirror publishes")
            check(len({document["metadata"]["namespace"] for document in documents}) == 1, "fleet: all of it is in one namespace")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target/debug/grandstand")
    binary = parser.parse_args().binary.resolve()
    settings = dockerfile(binary)
    compose(binary, settings)
    kubernetes(binary, settings)


if __name__ == "__main__":
    main()

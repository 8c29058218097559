"""The words of kubelets, container runtimes and registries about failures, each with its cause in few words and its remedy.

Remedies have names in braces, which `PodProblem` lists. Of each table the first pattern that matches counts.
"""

import re

from flamectl_operator.api.constants import OWN_VOLUME_PREFIX

_CORRECT_IMAGE = "correct {image}"
_COMMAND = "correct {image} or {command}"
_NETWORK = "correct {image}, or the network between the nodes and the registry"
_WAIT = "wait, because the kubelet tries again; else see kubectl describe pod {pod}"
_DESCRIBE = "see kubectl describe pod {pod}"
_DEVICES = "ask an administrator to check the devices of node {node}"
_UNTRUSTED = "its signature is not valid"
_UNREACHABLE = "the registry cannot be reached"

#: Reasons with which a container waits for an image that the kubelet cannot get, with the cause where the reason says it.
IMAGE_REASONS = {
    "ImagePullBackOff": "",
    "ErrImagePull": "",
    "ImageInspectError": "",
    "RegistryUnavailable": _UNREACHABLE,
    "SignatureValidationFailed": _UNTRUSTED,
    # Since Kubernetes 1.35 a kubelet says the same of an image that another Pod pulled with credentials which this one lacks.
    "ErrImageNeverPull": "it is not on the node, or not for this Pod, and imagePullPolicy is Never",
    "InvalidImageName": "the image name is not valid",
}
#: Causes of images that cannot be pulled.
_PULLS = (
    # While a kubelet waits, it repeats the reason that it gave at its last attempt.
    (r"signature", _UNTRUSTED, _CORRECT_IMAGE),
    # Harbor answers 412 for an image with known vulnerabilities.
    (
        r"rejected by policy|policy ?violation|\b412\b",
        "a policy of the node or of the registry refuses it",
        "correct {image}, or an administrator changes that policy",
    ),
    (r"RegistryUnavailable|registry is unavailable", _UNREACHABLE, _NETWORK),
    (r"dial unix", "the container runtime of the node does not answer", "see kubectl describe node {node}"),
    # CRI-O takes no name without a registry where it could mean several.
    (r"short[- ]name", "the image name has no registry", "put the registry into {image}"),
    (r"pull QPS exceeded", "the node limits the number of pulls", "wait, because the kubelet tries again"),
    (
        r"toomanyrequests|rate limit|\b429\b",
        "the registry limits the number of pulls",
        "pull with a Secret in {template}.imagePullSecrets, or from another registry in {image}",
    ),
    (
        r"no such host|server misbehaving|name resolution|\blookup \S+( on \S+)?: ",
        "the name of the registry cannot be resolved",
        "correct {image}, or the DNS of the nodes",
    ),
    (
        r"x509|certificate",
        "the certificate of the registry is not trusted",
        "an administrator lets the nodes trust it; or correct {image}",
    ),
    (
        r"HTTP response to HTTPS|\btls: ",
        "the node expects TLS from the registry, and gets none or another version",
        "an administrator corrects the registry or the runtime of the nodes; or correct {image}",
    ),
    (
        r"proxy authentication|\b407\b",
        "the proxy of the node refuses the connection",
        "an administrator corrects the proxy of the runtime of the nodes",
    ),
    (
        r"denied|unauthorized|authorization|authentication|forbidden|no permission|credentials|username|\b40[13]\b",
        "access denied, or no such repository",
        "correct {image}, or add a Secret to {template}.imagePullSecrets",
    ),
    (
        r"no match for platform|no matching manifest|no image found in (?:image index|manifest list)",
        "it has no variant for the platform of the node",
        "correct {image}, or choose other nodes by {template}.nodeSelector",
    ),
    # A proxy may answer with a page of its own, and runtimes of today do not know the oldest format.
    (r"media type", "the registry does not answer with an image that the node can read", _CORRECT_IMAGE),
    (r"no space left", "no space is left on the node", "an administrator frees disk space on node {node}"),
    (r"not ?found|manifest unknown|name unknown|\b404\b", "not found", _CORRECT_IMAGE),
    (r"timeout|timed out|deadline|context canceled", "the registry did not answer in time", _NETWORK),
    (r"refused|unreachable|no route|reset by peer|\bEOF\b", _UNREACHABLE, _NETWORK),
    (
        r"\b50[0234]\b|service unavailable|bad gateway|internal server error",
        "the registry answers with an error of its own",
        "wait, or take another registry in {image}",
    ),
)
#: Remedies of containers that cannot be created or started.
_STARTS = (
    # First, because the name of the program may be any word.
    (r'executable file|\bexec: "[^"]{0,300}": (?:stat |permission|no such|is a directory)', _COMMAND),
    (r"runAsNonRoot", "set {template}.securityContext.runAsUser"),
    # The kubelet has not heard of a Secret or ConfigMap yet, so that nobody knows whether it is there.
    (r"failed to sync .{1,80} cache|services have not yet been read|no relationship found|host IP unknown", _WAIT),
    # The node is slow, and its runtime still works on the last attempt.
    (r"timed out|timeout|deadline exceeded|connection refused|TLS handshake|is reserved for|is already in use", _WAIT),
    (r"no space left|cgroup", "ask an administrator to check node {node}, see kubectl describe node {node}"),
    (r"nvidia|libcuda|CDI device|custom device|\bhook #", _DEVICES),
    (r"argument list too long", "shorten {container}.env and the arguments, or mount long values as files"),
    (r"(?i)idmap", "take hostUsers out of {template}, or choose nodes whose file systems support it"),
    (r"exec format error", "correct {image}, or choose nodes of its platform by {template}.nodeSelector"),
    (r"\bpasswd\b|unable to find (?:user|group)", "correct {image}, or set {template}.securityContext.runAsUser"),
    (r"seccomp", "an administrator puts the profile on the nodes, or change seccompProfile in {template}"),
    (r"[Aa]pp[Aa]rmor", "an administrator loads the profile on the nodes, or change appArmorProfile in {template}"),
    (r"chdir to cwd", "correct workingDir of the container in {template}"),
    (
        r"[Ss]ub[Pp]ath|mountpoint|error mounting|shared or slave mount|cannot find volume|hostPath|ImageVolumeMountFailed",
        "correct volumes in {template}, and volumeMounts of the container there",
    ),
)
#: Words about the program of a container, by the reasons that may be about it.
_PROGRAM = re.compile(r"\bexec|no such file|permission denied|no command")
_OF_PROGRAM = frozenset({"CreateContainerError", "RunContainerError", "StartError", "ContainerCannotRun"})
#: More advice by the exit code. Only events tell that the kubelet ended a container after a probe failed.
_PROBE = ", and kubectl describe pod {pod} for a probe that failed"
_MORE = {
    132: "; its image may need a processor that node {node} does not have",
    135: "; it may need more shared memory, by an emptyDir with medium Memory at /dev/shm in {template}",
    137: _PROBE,
    143: _PROBE,
}
#: Remedies by the reason of a container that waits or has ended, or of a Pod that its kubelet refused.
_REMEDIES = {
    "ErrImageNeverPull": "load the image on the node, or change {container}.imagePullPolicy",
    "RegistryUnavailable": _NETWORK,
    "CreateContainerConfigError": "create or correct it, or change {container}",
    **dict.fromkeys(_OF_PROGRAM, "change {container}, or see kubectl describe pod {pod}"),
    "PreCreateHookError": _DESCRIBE,
    "PreStartHookError": _DESCRIBE,
    "PostStartHookError": "correct lifecycle.postStart of the container in {template}",
    "DeadlineExceeded": "raise {template}.activeDeadlineSeconds, or take it out",
    "NodeAffinity": "see the labels of node {node}, and nodeSelector, affinity and nodeName in {template}",
    "UnexpectedAdmissionError": _DEVICES,
    "TopologyAffinityError": "ask for fewer processors or devices in {container}.resources, or choose other nodes",
    "SMTAlignmentError": "ask for whole processor cores in {container}.resources, or choose other nodes",
    "SysctlForbidden": "take it out of {template}.securityContext.sysctls, or an administrator allows it on the nodes",
    "AppArmor": "an administrator loads the profile on the nodes, or change appArmorProfile in {template}",
    "PodOSNotSupported": "correct {template}.os, or choose other nodes",
    "NodePorts": "change the hostPort in {template}, or end the Pod of node {node} that has it",
    "OutOfpods": "add a node, because no more Pods may run on node {node}",
    "VolumeAttachmentLimitExceeded": "add a node, because no more volumes can be attached to node {node}",
    **dict.fromkeys(
        ("PodFeatureUnsupported", "PodLevelResourcesNotSupported", "SupplementalGroupsPolicyNotSupported"),
        "choose nodes whose kubelet supports it, or take it out of {template}",
    ),
}
#: The begin of the reason of a kubelet that has no room for a Pod that it has got, such as OutOfcpu.
_OUT_OF = "OutOf"
_TAKEN = "see by kubectl describe node {{node}} which Pods take it, or lower {{{}}}.resources.requests"
#: Resources that a whole Pod may ask for, and the names of the fields that ask for them in remedies.
OF_PODS = {"cpu": "asks_cpu", "memory": "asks_memory"}
#: Remedies of evictions; `{named}` stands for the text that the pattern found.
_EVICTIONS = (
    (rf'EmptyDir volume "{OWN_VOLUME_PREFIX}[^"]*" exceeds', "{{runtime_storage}}"),
    (r'EmptyDir volume "([-a-z0-9]+)" exceeds', "raise {{template}}.volumes[name={named}].emptyDir.sizeLimit"),
    (r"ephemeral (?:local )?storage (?:limit|usage) ", "raise {{container}}.resources.limits.ephemeral-storage"),
    (r"low on resource: memory\b", "raise {{asks_memory}}.resources.requests.memory"),
    (r"low on resource: ephemeral-storage\b", "raise {{container}}.resources.requests.ephemeral-storage"),
    (r"low on resource: (\w+)", "an administrator frees {named} on node {{node}}"),
    (r"had condition: \[(\w+)", "ask an administrator to check {named} of node {{node}}"),
)
#: The address of a request: its words and numbers say nothing about the answer.
_ADDRESS = re.compile(r'https?://[^\s"]*|(?<=[\w\]]):\d+\b', re.IGNORECASE)
#: The codes with which gRPC and runtimes end an error, and which say nothing.
_CODE = re.compile(r": (?:unknown|failed precondition|not implemented|unavailable|invalid argument)$")
#: The most characters of a message about an image that are read, without its name. A registry of a tenant writes it, and many
#: patterns are searched for.
_MAX_READ_LENGTH_OF_PULL = 1000


def image_remedy(said: str) -> str:
    """Return the remedy of an image whose reason says the cause."""
    return _REMEDIES.get(said, _CORRECT_IMAGE)


def pull_cause(words: str) -> tuple[str, str]:
    """Return why an image cannot be pulled, and the remedy, by the kubelet's message without the name of the image."""
    read = _ADDRESS.sub("", words[:_MAX_READ_LENGTH_OF_PULL])
    for pattern, cause, remedy in _PULLS:
        if re.search(pattern, read, re.IGNORECASE):
            return cause, remedy
    return _CODE.sub("", words).rpartition(": ")[2].rpartition("desc = ")[2], f"{_CORRECT_IMAGE}; {_DESCRIBE}"


def start_remedy(said: str, cause: str) -> str:
    """Return the remedy of a container that cannot be created or started."""
    otherwise = _COMMAND if said in _OF_PROGRAM and _PROGRAM.search(cause) else _REMEDIES[said]
    return next((remedy for pattern, remedy in _STARTS if re.search(pattern, cause)), otherwise)


def end_remedy(said: str, exit_code: int) -> str:
    """Return the remedy of a container that has ended."""
    return _REMEDIES.get(said) or log_remedy(exit_code, "")


def log_remedy(exit_code: int | None, earlier: str = " --previous") -> str:
    """Return the advice to read the log of a container that has ended, and events where the log may tell nothing."""
    return f"see kubectl logs {{pod}}{{of}}{earlier}{_MORE.get(exit_code or 0, '')}"


def refusal_remedy(said: str) -> str:
    """Return the remedy of a Pod that ended as a whole, mostly because its kubelet refused it."""
    if said in _REMEDIES or not said.startswith(_OUT_OF):
        return _REMEDIES.get(said, "see kubectl describe node {node}")
    return _TAKEN.format(OF_PODS.get(said.removeprefix(_OUT_OF), "container"))


def eviction_remedy(beginning: str) -> str:
    """Return the remedy of an eviction by a kubelet; empty where its words are not known."""
    for pattern, remedy in _EVICTIONS:
        if (found := re.search(pattern, beginning)) is not None:
            return remedy.format(named=found[1] if found.lastindex else "")
    return ""

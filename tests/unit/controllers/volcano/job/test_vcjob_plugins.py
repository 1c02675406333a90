"""The plugins of a Volcano Job: what they make, what they do to pods, and how their arguments are read."""

import json

import pytest

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import UID
from tests.unit.controllers.volcano.job.vcjobs import MAIN, parsed, task
from workers.api import loopback_addresses
from workers.api.kinds import CONFIG_MAP, NETWORK_POLICY, SECRET, SERVICE, ref_of
from workers.api.volcano.arguments import parse
from workers.controllers.volcano.job import plugins, pods
from workers.controllers.volcano.job.names import Site
from workers.decision.plan import Create, Delete, Discard, Patch

SITE = Site()
INIT = {"name": "first", "image": "worker"}
BOTH = {"spec": {"containers": [MAIN], "initContainers": [INIT]}}
PS, WORKER = task("ps", 1, template=BOTH), task("worker", 2, template=BOTH)
OURS = {"volcano.sh/job-name": "train", "volcano.sh/job-namespace": "default"}


def job(*tasks, metadata=None, **given):
    """given: by plugin, its arguments."""
    return parsed(*(tasks or (PS, WORKER)), metadata=metadata, plugins=given)


def pod(job_, name, index=0, site=SITE):
    return pods.build(job_, job_.spec.task(name), index, version=0, retries=0, site=site)


def made(job_, site=SITE):
    return {step.kind: step.body for step in plugins.objects(job_, site)}


def env(pod_, container="main"):
    everyone = [*pod_["spec"]["containers"], *pod_["spec"].get("initContainers", ())]
    (found,) = (one for one in everyone if one["name"] == container)
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in found.get("env", ())}


def ports(pod_, container="main"):
    (found,) = (one for one in pod_["spec"]["containers"] if one["name"] == container)
    return {each["name"]: each["containerPort"] for each in found.get("ports", ())}


# env


@for_each("main", "first")
def test_env_gives_every_container_its_index(container):
    found = env(pod(job(env=[]), "worker", 1), container)
    assert found == {"VK_TASK_INDEX": "1", "VC_TASK_INDEX": "1"}


def test_the_authors_own_variables_come_first():
    template = {"spec": {"containers": [{**MAIN, "env": [{"name": "A", "value": "1"}]}]}}
    found = pod(job(task(template=template), env=[]), "worker")["spec"]["containers"][0]["env"]
    assert [each["name"] for each in found] == ["A", "VK_TASK_INDEX", "VC_TASK_INDEX"]


# svc


def test_svc_lists_the_hosts_of_every_task():
    data = made(job(task("ps", 1), task("big-worker", 2), svc=[]))[CONFIG_MAP]["data"]
    workers = ["train-big-worker-0.train", "train-big-worker-1.train"]
    assert data == {
        "ps.host": "train-ps-0.train",
        "VC_PS_HOSTS": "train-ps-0.train",
        "VC_PS_NUM": "1",
        "big_worker.host": "\n".join(workers),
        "VC_BIG_WORKER_HOSTS": ",".join(workers),
        "VC_BIG_WORKER_NUM": "2",
    }


@for_each(
    ({}, "train-worker-0.train,train-worker-1.train"),
    ({"hostname": "fixed"}, "fixed.train"),
    ({"subdomain": "web"}, "train-worker-0.web,train-worker-1.web"),
    ({"hostname": "fixed", "subdomain": "web"}, "fixed.web"),
)
def test_a_templates_own_name_counts(given, hosts):
    data = made(job(task("worker", 2, template={"spec": given}), svc=[]))[CONFIG_MAP]["data"]
    assert (data["VC_WORKER_HOSTS"], data["VC_WORKER_NUM"]) == (hosts, str(len(hosts.split(","))))


def test_a_task_without_pods_has_no_hosts():
    data = made(job(task("worker", 0), svc=[]))[CONFIG_MAP]["data"]
    assert data == {"worker.host": "", "VC_WORKER_HOSTS": "", "VC_WORKER_NUM": "0"}


def test_svc_creates_a_service_and_admits_only_the_jobs_pods():
    objects = made(job(svc=[]))
    assert objects[SERVICE]["spec"] == {"clusterIP": "None", "selector": OURS}
    assert objects[NETWORK_POLICY]["spec"] == {
        "podSelector": {"matchLabels": OURS},
        "ingress": [{"from": [{"podSelector": {"matchLabels": OURS}}]}],
        "policyTypes": ["Ingress"],
    }
    assert {kind: body["metadata"]["name"] for kind, body in objects.items()} == {
        CONFIG_MAP: "train-svc",
        SERVICE: "train",
        NETWORK_POLICY: "train",
    }
    for kind, body in objects.items():
        assert (body["apiVersion"], body["kind"]) == (kind.api_version, kind.kind)
        assert body["metadata"]["labels"] == {"volcano.sh/job-name": "train"}, "only these are followed"
        assert [owner["uid"] for owner in body["metadata"]["ownerReferences"]] == [UID]
        assert body["metadata"]["ownerReferences"][0]["controller"] is True


def test_a_service_that_the_author_made_will_do_but_a_list_of_hosts_must_be_ours():
    assert {step.kind: step.any_owner for step in plugins.objects(job(svc=[]), SITE)} == {
        CONFIG_MAP: False,
        SERVICE: True,
        NETWORK_POLICY: True,
    }


@for_each(
    ([], {CONFIG_MAP, SERVICE, NETWORK_POLICY}, None),
    (["--disable-network-policy=true"], {CONFIG_MAP, SERVICE}, None),
    (["--publish-not-ready-addresses=true"], {CONFIG_MAP, SERVICE, NETWORK_POLICY}, True),
    (["--publish-not-ready-addresses", "--disable-network-policy"], {CONFIG_MAP, SERVICE}, True),
)
def test_arguments_of_svc(arguments, kinds, published):
    objects = made(job(svc=arguments))
    assert set(objects) == kinds
    assert objects[SERVICE]["spec"].get("publishNotReadyAddresses") is published


@for_each("main", "first")
def test_a_pod_of_svc_is_named_and_knows_the_others(container):
    found = pod(job(svc=[]), "worker", 1)
    assert (found["spec"]["hostname"], found["spec"]["subdomain"]) == ("train-worker-1", "train")
    assert env(found, container) == {
        name: {"configMapKeyRef": {"name": "train-svc", "key": name}}
        for name in ("VC_PS_HOSTS", "VC_PS_NUM", "VC_WORKER_HOSTS", "VC_WORKER_NUM")
    }
    assert found["spec"]["volumes"] == [{"name": "train-svc", "configMap": {"name": "train-svc"}}]
    (container_,) = found["spec"]["initContainers" if container == "first" else "containers"]
    assert container_["volumeMounts"] == [{"name": "train-svc", "mountPath": "/etc/volcano"}]


def test_a_pods_own_name_stays_and_variables_can_be_left_out():
    named = task(template={"spec": {"hostname": "mine", "subdomain": "web"}})
    found = pod(job(named, svc=["--inject-hosts-env=false"]), "worker")
    assert (found["spec"]["hostname"], found["spec"]["subdomain"]) == ("mine", "web")
    assert env(found) == {}
    assert found["spec"]["volumes"], "the files are there all the same"


# ssh


def secret(*arguments):
    ((step,),) = (plugins.objects(job(ssh=list(arguments)), SITE),)
    return step


def test_ssh_makes_keys_that_the_plan_never_sees():
    step = secret()
    assert (step.kind, step.body["metadata"]["name"], step.generate) == (SECRET, "train-ssh", "ssh-key")
    assert step.body["stringData"] == {
        "config": "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
        "Host train-ps-0\n  HostName train-ps-0.train\n  Port 22\n"
        "Host train-worker-0\n  HostName train-worker-0.train\n  Port 22\n"
        "Host train-worker-1\n  HostName train-worker-1.train\n  Port 22\n"
    }


@cases(
    ("both", ("--ssh-private-key=P", "--ssh-public-key=Q"), True),
    ("half a pair is none", ("--ssh-private-key=P",), False),
    ("the other half", ("--ssh-public-key=Q",), False),
)
def test_keys_that_are_given_are_taken(arguments, given):
    step = secret(*arguments)
    assert step.generate == (None if given else "ssh-key")
    texts = {key: text for key, text in step.body["stringData"].items() if key != "config"}
    assert texts == ({"id_rsa": "P", "id_rsa.pub": "Q", "authorized_keys": "Q"} if given else {})


@for_each(("2022", 2022), ("0", 22), ("-1", 22), ("65536", 22), ("x", 22))
def test_a_port_that_is_none_is_the_usual_one(port, expected):
    assert f"  Port {expected}\n" in secret(f"--ssh-port={port}").body["stringData"]["config"]


@for_each(("/root/.ssh", 0o600), ("/home/me/.ssh", 0o644))
@for_each("containers", "initContainers")
def test_every_container_has_the_keys(field, path, mode):
    spec = pod(job(ssh=[f"--ssh-key-file-path={path}"]), "worker")["spec"]
    (volume,) = spec["volumes"]
    keys = ["id_rsa", "id_rsa.pub", "authorized_keys", "config"]
    items = [{"key": key, "path": f".ssh/{key}"} for key in keys]
    assert volume == {"name": "train-ssh", "secret": {"secretName": "train-ssh", "items": items, "defaultMode": mode}}
    (container,) = spec[field]
    assert container["volumeMounts"] == [{"name": "train-ssh", "mountPath": path, "subPath": ".ssh"}]


# tensorflow


def tf_config(job_, name, index=0):
    text = env(pod(job_, name, index)).get("TF_CONFIG")
    return text and json.loads(text)


def test_tensorflow_says_who_there_is_in_the_order_that_programs_know():
    tasks = [task(name) for name in ("evaluator", "worker", "ps", "chief")]
    text = env(pod(job(*tasks, tensorflow=[]), "worker"))["TF_CONFIG"]
    assert text == (
        '{"cluster":{"ps":["train-ps-0.train:2222"],"worker":["train-worker-0.train:2222"],'
        '"chief":["train-chief-0.train:2222"],"evaluator":["train-evaluator-0.train:2222"]},'
        '"task":{"type":"worker","index":0}}'
    )


@cases(
    ("roles are called like tasks", [], "ps", {"ps": 1, "worker": 2}, "ps"),
    ("other names", ["--ps=worker", "--worker=ps"], "ps", {"ps": 2, "worker": 1}, "worker"),
    ("another port", ["--port=9"], "worker", {"ps": 1, "worker": 2}, "worker"),
    ("a task without a role keeps its name", ["--ps=none"], "ps", {"worker": 2}, "ps"),
)
def test_roles_of_tensorflow(arguments, name, cluster, role):
    config = tf_config(job(tensorflow=arguments), name)
    assert {each: len(hosts) for each, hosts in config["cluster"].items()} == cluster
    assert config["task"] == {"type": role, "index": 0}
    port = "9" if "--port=9" in arguments else "2222"
    assert all(host.endswith(f":{port}") for hosts in config["cluster"].values() for host in hosts)


@for_each(((task(),), False), ((task(replicas=2),), True), ((task(), task("ps", 0)), True))
def test_a_single_pod_gets_no_cluster_configuration(tasks, told):
    assert bool(tf_config(job(*tasks, tensorflow=[]), "worker")) is told


# pytorch


@for_each(("master", 0, "0"), ("worker", 0, "1"), ("worker", 1, "2"), ("other", 0, None))
def test_pytorch_ranks_the_master_first(name, index, rank):
    tasks = [task("master"), task("worker", 2), task("other", 5)]
    found = pod(job(*tasks, pytorch=[]), name, index)
    expected = {"MASTER_ADDR": "train-master-0.train", "MASTER_PORT": "23456", "WORLD_SIZE": "3"}
    assert env(found) == expected | ({"RANK": rank} if rank else {})
    assert ports(found) == {"pytorchjob-port": 23456}


def test_pytorch_needs_a_master_and_takes_other_names():
    assert env(pod(job(task(), pytorch=[]), "worker")) == {}
    found = pod(job(task("a"), task("b", 2), pytorch=["--master=a", "--worker", "b", "-port=7"]), "b", 1)
    assert env(found) == {"MASTER_ADDR": "train-a-0.train", "MASTER_PORT": "7", "WORLD_SIZE": "3", "RANK": "2"}


@for_each(
    ([{"name": "web", "containerPort": 80}], {"web": 80, "pytorchjob-port": 23456}),
    ([{"name": "web", "containerPort": 23456}], {"web": 23456}),
    ([{"name": "pytorchjob-port", "containerPort": 80}], {"pytorchjob-port": 80}),
)
def test_a_port_that_is_there_is_not_added(given, expected):
    named = task(template={"spec": {"containers": [{**MAIN, "ports": given}]}})
    assert ports(pod(job(task("master"), named, pytorch=[]), "worker")) == expected


WAIT = "--wait-master-enabled=true"


@for_each(
    ([], "worker", False),
    ([WAIT], "worker", True),
    ([WAIT], "master", False),
    (["--wait-master-enabled"], "worker", True),
)
def test_workers_wait_for_their_master_when_asked_to(arguments, name, waits):
    found = pod(job(task("master"), task("worker"), pytorch=arguments), name)["spec"].get("initContainers", ())
    assert [each["name"] for each in found] == (["wait-for-master"] if waits else [])
    if waits:
        assert found[0]["image"] == "busybox:1.36.1"
        *shell, script = found[0]["command"]
        assert shell == ["sh", "-c"]
        assert "nc -z -w 2 train-master-0.train 23456" in script


# mpi


def test_mpi_gives_the_launcher_its_workers():
    tasks = [task("master", template=BOTH), task("worker", 2, template=BOTH)]
    launcher, worker = (pod(job(*tasks, mpi=[]), name) for name in ("master", "worker"))
    hosts = {"MPI_HOST": "train-worker-0.train,train-worker-1.train"}
    assert (env(launcher), env(launcher, "first"), env(worker)) == (hosts, hosts, {})
    assert ports(launcher) == ports(worker) == {"mpijob-port": 22}
    assert launcher["spec"]["initContainers"][0]["ports"] == [{"name": "mpijob-port", "containerPort": 22}]


def test_mpi_takes_other_names():
    found = pod(job(task("a"), task("b"), mpi=["--master=a", "--worker=b", "--port=2022"]), "a")
    assert (env(found), ports(found)) == ({"MPI_HOST": "train-b-0.train"}, {"mpijob-port": 2022})


# ray


def named(name, container):
    return task(name, template={"spec": {"containers": [{"name": container, "image": "ray"}, MAIN]}})


def test_ray_starts_a_head_that_workers_join():
    found = job(named("head", "head"), named("worker", "worker"), ray=[])
    head, worker = pod(found, "head")["spec"]["containers"], pod(found, "worker")["spec"]["containers"]
    assert head[0]["command"] == [
        "sh",
        "-c",
        "ray start --head --block --dashboard-host=0.0.0.0 --port=6379 --dashboard-port=8265 "
        "--ray-client-server-port=10001",
    ]
    assert worker[0]["command"] == ["sh", "-c", "ray start --block --address=train-head-0.train:6379"]
    assert ports(pod(found, "head"), "head") == {"gcs": 6379, "dashboard": 8265, "client-server": 10001}
    assert head[1] == worker[1] == MAIN, "other containers are left alone"


def test_ray_has_a_service_in_front_of_its_head():
    body = made(job(named("chef", "c"), ray=["--head=chef", "--headContainer=c", "--port=1", "--dashboardPort=2"]))[
        SERVICE
    ]
    assert body["metadata"]["name"] == "train-head-svc"
    assert body["spec"] == {
        "selector": {**OURS, "volcano.sh/task-spec": "chef"},
        "ports": [
            {"name": "gcs", "port": 1, "targetPort": "gcs", "protocol": "TCP"},
            {"name": "dashboard", "port": 2, "targetPort": "dashboard", "protocol": "TCP"},
            {"name": "client-server", "port": 10001, "targetPort": "client-server", "protocol": "TCP"},
        ],
    }


def test_ray_without_a_head_is_an_error_by_name():
    with pytest.raises(plugins.PluginError, match="plugin ray: there is no task 'head'"):
        plugins.objects(job(ray=[]), SITE)
    with pytest.raises(plugins.PluginError, match="plugin ray"):
        pod(job(ray=[]), "worker")


# hcclrank


@cases(
    ("masters come first", {}, "master", 1, "1"),
    ("then workers", {}, "worker", 1, "3"),
    ("others have none", {}, "other", 0, None),
    ("what another plugin says counts", {"pytorch": []}, "worker", 1, "2"),
)
def test_hcclrank_ranks(given, name, index, rank):
    tasks = [task("master", 2), task("worker", 2), task("other")]
    annotations = pod(job(*tasks, hcclrank=[], **given), name, index)["metadata"]["annotations"]
    assert annotations.get("hccl/rankIndex") == rank


def test_a_rank_of_the_author_stays():
    template = {"metadata": {"annotations": {"hccl/rankIndex": "9"}}}
    assert pod(job(task(template=template), hcclrank=[]), "worker")["metadata"]["annotations"]["hccl/rankIndex"] == "9"
    template = {"spec": {"containers": [{**MAIN, "env": [{"name": "RANK", "value": "8"}]}]}}
    assert pod(job(task(template=template), hcclrank=[]), "worker")["metadata"]["annotations"]["hccl/rankIndex"] == "8"


# all together


def test_plugins_act_in_one_order_for_every_manifest():
    given = {"hcclrank": [], "pytorch": [], "svc": [], "env": []}
    tasks = (task("master"), task("worker"))
    assert pod(job(*tasks, **given), "worker") == pod(job(*tasks, **dict(reversed(given.items()))), "worker")


def test_an_unknown_plugin_is_named():
    with pytest.raises(plugins.PluginError, match="plugin horovod: not known; there are env, hcclrank, mpi"):
        plugins.objects(job(horovod=[], env=[]), SITE)


def test_controlled_resources_name_every_plugin_but_hcclrank():
    assert plugins.resources(job(env=[], svc=[], hcclrank=[])) == {"plugin-env": "env", "plugin-svc": "svc"}


def test_a_wrong_argument_is_reported_and_those_before_it_count():
    found = job(mpi=["--port=2022", "--depth=3", "--master=ps"], env=[])
    assert plugins.remarks(found) == ("plugin mpi: flag provided but not defined: -depth",)
    assert ports(pod(found, "worker")) == {"mpijob-port": 2022}
    assert "MPI_HOST" not in env(pod(found, "ps"))
    assert plugins.remarks(job(env=[], svc=None)) == ()


def test_where_no_names_resolve_hosts_are_addresses():
    site = Site(addresses=True)
    found = job(
        task("master"), task("worker", 2), **{name: [] for name in ("svc", "ssh", "mpi", "pytorch", "tensorflow")}
    )
    first, second = (loopback_addresses.address("default", f"train-worker-{index}.train") for index in (0, 1))
    master = loopback_addresses.address("default", "train-master-0.train")
    made_pod = pod(found, "master", site=site)
    assert loopback_addresses.of(made_pod) == master
    assert loopback_addresses.ADDRESS not in pod(found, "master")["metadata"]["annotations"]
    launcher = env(made_pod)
    assert launcher["MPI_HOST"] == f"{first},{second}"
    assert launcher["MASTER_ADDR"] == master
    assert json.loads(launcher["TF_CONFIG"])["cluster"] == {"worker": [f"{first}:2222", f"{second}:2222"]}
    objects = made(found, site)
    assert objects[CONFIG_MAP]["data"]["VC_WORKER_HOSTS"] == f"{first},{second}"
    assert f"Host train-worker-1\n  HostName {second}\n" in objects[SECRET]["stringData"]["config"]


# what is there already


def seen(job_):
    """Returns the plugins' objects as an API server stores them, without Secrets, which are never read."""
    found = {}
    for step in plugins.objects(job_, SITE):
        if step.kind != SECRET:
            metadata = {**step.body["metadata"], "uid": f"uid-{step.kind.kind}", "resourceVersion": "3"}
            found[ref_of(step.kind, step.body)] = {**step.body, "metadata": metadata}
    return found


ALL = {"svc": [], "ssh": [], "ray": ["--head=ps"]}


def test_what_is_as_it_must_be_is_left_alone():
    assert plugins.repairs(job(**ALL), SITE, seen(job(**ALL))) == ()


@pytest.mark.parametrize("lost", range(4))
def test_what_was_deleted_behind_our_back_is_made_again(lost):
    found = seen(job(**ALL))
    ref = list(found)[lost]
    (step,) = plugins.repairs(job(**ALL), SITE, {**found, ref: None})
    assert isinstance(step, Create)
    assert ref_of(step.kind, step.body) == ref


def test_the_list_of_hosts_follows_the_job():
    before, after = job(task("ps"), task("worker"), svc=[]), job(task("worker", 2), svc=[])
    (step,) = plugins.repairs(after, SITE, seen(before))
    assert isinstance(step, Patch)
    assert (step.ref.kind, step.resource_version) == (CONFIG_MAP, "3")
    assert step.body["data"]["VC_WORKER_NUM"] == "2"
    assert step.body["data"]["VC_PS_NUM"] is None, "a merge patch takes away what it names null"


def test_a_service_that_a_user_changed_stays_as_it_is():
    found = seen(job(svc=[]))
    changed = {ref: {**body, "spec": {"mine": True}} if "spec" in body else body for ref, body in found.items()}
    assert plugins.repairs(job(svc=[]), SITE, changed) == ()


def test_in_the_end_all_of_it_goes_each_by_its_uid_and_secrets_unseen():
    found = seen(job(**ALL))
    steps = plugins.removals(job(**ALL), SITE, found)
    assert {step.ref: step.uid for step in steps if isinstance(step, Delete)} == {
        ref: body["metadata"]["uid"] for ref, body in found.items()
    }
    assert [step.ref.name for step in steps if isinstance(step, Discard)] == ["train-ssh"]
    assert [type(step) for step in plugins.removals(job(**ALL), SITE, {})] == [Discard]


def test_secrets_are_asked_for_before_every_pod():
    assert [step.kind for step in plugins.secrets(job(**ALL), SITE)] == [SECRET]
    assert plugins.secrets(job(svc=[]), SITE) == ()


# arguments

FLAGS = {"name": "none", "port": 1, "on": False}


@cases(
    ("nothing", [], {}, None),
    ("with =", ["--name=a"], {"name": "a"}, None),
    ("one dash", ["-name=a"], {"name": "a"}, None),
    ("apart", ["--name", "a"], {"name": "a"}, None),
    ("empty", ["--name="], {"name": ""}, None),
    ("the first = counts", ["--name=a=b"], {"name": "a=b"}, None),
    ("what follows is the value", ["--name", "--port=2"], {"name": "--port=2"}, None),
    ("the last one counts", ["--name=a", "--name=b"], {"name": "b"}, None),
    ("a switch alone", ["--on"], {"on": True}, None),
    ("off", ["--on=false"], {}, None),
    ("spelled otherwise", ["--on=T"], {"on": True}, None),
    ("a switch takes no value; reading ends", ["--on", "true", "--port=2"], {"on": True}, None),
    ("hexadecimal", ["--port=0x10"], {"port": 16}, None),
    ("octal", ["--port=010"], {"port": 8}, None),
    ("octal as it is written today", ["--port=0o10"], {"port": 8}, None),
    ("grouped", ["--port=1_000"], {"port": 1000}, None),
    ("grouped badly", ["--port=1__0"], {}, 'invalid value "1__0" for flag -port: parse error'),
    ("negative", ["--port=-5"], {"port": -5}, None),
    ("reading ends at what is no flag", ["word", "--name=a"], {}, None),
    ("and at two dashes", ["--", "--name=a"], {}, None),
    ("and at one", ["-", "--name=a"], {}, None),
    ("no value", ["--name"], {}, "flag needs an argument: -name"),
    ("unknown", ["--what=1"], {}, "flag provided but not defined: -what"),
    ("three dashes", ["---name=a"], {}, "bad flag syntax: ---name=a"),
    ("no name", ["--=a"], {}, "bad flag syntax: --=a"),
    ("help", ["-h"], {}, "flag: help requested"),
    ("no number", ["--port=x"], {}, 'invalid value "x" for flag -port: parse error'),
    ("an empty number", ["--port="], {}, 'invalid value "" for flag -port: parse error'),
    ("no octal number", ["--port=09"], {}, 'invalid value "09" for flag -port: parse error'),
    (
        "too large",
        ["--port=9223372036854775808"],
        {},
        'invalid value "9223372036854775808" for flag -port: value out of range',
    ),
    ("no switch", ["--on=yes"], {}, 'invalid boolean value "yes" for -on: parse error'),
    ("what stood before counts", ["--name=a", "--port=x", "--on"], {"name": "a"}, "parse error"),
)
def test_arguments_are_read_as_go_reads_flags(arguments, changed, problem):
    values, found = parse(arguments, FLAGS)
    assert (found is None) is (problem is None)
    assert problem is None or problem in found
    assert values == {**FLAGS, **changed}

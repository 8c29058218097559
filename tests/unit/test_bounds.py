"""Each bound on what tenants can cost is needed: without it a test of the attack fails."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

#: More than anything that a test does.
_UNBOUNDED = "10**12"
#: Takes the bounds off one after the other, each in a child of its own. One session of pytest collects the tests, and each child
#: runs some of them in it. The collector of garbage leaves alone what was there before the first child.
_WITHOUT = """
import gc, importlib, json, os, sys, traceback
import pytest
from _pytest.runner import runtestprotocol

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

def without(place, value, test, log, items):
    out = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(out, 1)
    os.dup2(out, 2)
    module, _, path = place.partition(":")
    *owners, name = path.split(".")
    owner = importlib.import_module(module)
    for each in owners:
        owner = getattr(owner, each)
    getattr(owner, name)
    setattr(owner, name, eval(value))
    chosen = [item for item in items if item.nodeid == test or item.nodeid.startswith((f"{test}::", f"{test}["))]
    for item in chosen:
        for report in runtestprotocol(item, log=False):
            if report.failed and report.when == "call":
                print("FAILED", report.nodeid, report.longreprtext)
                return pytest.ExitCode.TESTS_FAILED
    return pytest.ExitCode.OK if chosen else pytest.ExitCode.NO_TESTS_COLLECTED

class Forks:
    def pytest_runtestloop(self, session):
        gc.freeze()
        for line in sys.stdin:
            child = os.fork()
            if not child:
                code = pytest.ExitCode.INTERNAL_ERROR
                try:
                    code = without(*json.loads(line), session.items)
                    sys.stdout.flush()
                except BaseException:
                    traceback.print_exc()
                os._exit(code)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)
        return True

# Only whether a test fails is in question, and the details of a failure cost as much as the test.
quick = ("-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly", "--assert=plain", "--tb=native")
pytest.main([*quick, *json.loads(sys.stdin.readline())], plugins=[Forks()])
"""
_TRANSFORM, _FLAME = "flamectl_operator.reconcile.stores.transform", "flamectl_operator.flame"
_KEPT = "tests/unit/reconcile/stores/test_transform.py"
_ANSWERS = "tests/unit/flame/test_answer_reader.py::test_answer_of_many_small_entries_is_refused_before_it_takes_memory"


@pytest.fixture(scope="module")
def forks(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """A process that answers each line with the exit code of a test without its bound."""
    here = [
        each for each in request.session.items if isinstance(each, pytest.Function) and each.module is request.module
    ]
    files = sorted({str(each.callspec.params["test"]).partition("::")[0] for each in here})
    command = [sys.executable, "-c", _WITHOUT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        print(json.dumps(files), file=process.stdin, flush=True)
        yield process


@pytest.mark.parametrize(
    ("place", "value", "test"),
    [
        pytest.param(f"{_TRANSFORM}:MAX_OWNERS_COST", _UNBOUNDED,
            f"{_KEPT}::test_large_metadata_of_any_kind_takes_some_kib[many owners-PodView]", id="owner references"),
        pytest.param(f"{_TRANSFORM}:MAX_POD_COST", _UNBOUNDED,
            f"{_KEPT}::test_large_spec_or_status_takes_some_kib[messages of a Pod]", id="a Pod"),
        pytest.param(f"{_TRANSFORM}:MAX_COST", _UNBOUNDED,
            f"{_KEPT}::test_large_metadata_of_any_kind_takes_some_kib[annotations-FlameClusterView]", id="any other object"),
        pytest.param(f"{_TRANSFORM}:MAX_FOREIGN_COST", _UNBOUNDED,
            f"{_KEPT}::test_labelled_object_that_is_no_child_takes_two_kib[ServiceView-no owner]",
            id="an object that is no child"),
        pytest.param(f"{_TRANSFORM}:_BUDGETS", f"dict(spec={_UNBOUNDED}, status=6144)",
            f"{_KEPT}::test_large_spec_or_status_takes_some_kib[holder of a Lease]", id="a spec"),
        pytest.param(f"{_TRANSFORM}:_BUDGETS", f"dict(spec=4096, status={_UNBOUNDED})",
            f"{_KEPT}::test_large_spec_or_status_takes_some_kib[messages of a Pod]", id="a status"),
        pytest.param(f"{_TRANSFORM}:MAX_CONTENT_COST", _UNBOUNDED,
            f"{_KEPT}::test_config_map_with_the_name_and_owner_of_a_clusters_takes_some_kib", id="a ConfigMap"),
        pytest.param(f"{_TRANSFORM}:MAX_POLICY_SIZE", _UNBOUNDED,
            f"{_KEPT}::test_network_policy_with_the_name_and_owner_of_a_clusters_takes_some_kib", id="a NetworkPolicy"),
        pytest.param(f"{_FLAME}.answer_reader:MAX_NAME_LENGTH", _UNBOUNDED,
            "tests/unit/flame/test_answer_reader.py::test_long_texts_are_not_kept", id="names in an answer"),
        pytest.param(f"{_FLAME}.answer_reader:MAX_ENTRIES", _UNBOUNDED, f"{_ANSWERS}[longer texts that Flame does not have]",
            id="entries of an answer"),
        pytest.param(f"{_FLAME}.answer_reader:batches", f"lambda data, _, counted=owner.batches: counted(data, {_UNBOUNDED})",
            f"{_ANSWERS}[fixed numbers that Flame does not have]", id="entries that take few bytes of an answer"),
        pytest.param(
            "flamectl_operator.reconcile.executor_ids:MAX_STEP",
            _UNBOUNDED,
            "tests/unit/reconcile/test_executor_ids.py"
            "::test_session_manager_that_lies_in_each_incarnation_uses_up_no_more_than_a_step_each_time",
            id="ids that an answer uses up",
        ),
        pytest.param(
            "flamectl_operator.reconcile.session_manager_io:SessionManagerIO.may_read",
            "lambda _: True",
            "tests/unit/subreconcilers/test_release_lost_nodes.py"
            "::test_session_manager_that_lists_lost_nodes_again_and_again_causes_few_reads",
            id="reads of Pods whose nodes an answer lists",
        ),
        pytest.param(
            "flamectl_operator.reconcile.session_manager_io:CALLS_LIMIT_SECONDS",
            "60.0",
            "tests/unit/reconcile/test_session_manager_io.py"
            "::test_session_manager_that_never_answers_keeps_a_pass_no_longer_than_the_limit",
            id="the time of a pass for what it tells a session manager",
        ),
        pytest.param("flamectl_operator.kube.api_server_client:MAX_PAGE_SIZE", _UNBOUNDED,
            "tests/unit/kube/test_api_server_client.py::test_list_of_large_objects_arrives_in_pages_of_a_few_mib",
            id="a page of a list"),
        pytest.param(f"{_FLAME}.frames:FrameLimit.admits", "lambda *_: True",
            "tests/unit/flame/test_frames.py::test_frames_without_data_are_admitted_up_to_the_limit",
            id="frames of an answer"),
        pytest.param(
            f"{_FLAME}.frames:MAX_OTHER_BYTES",
            _UNBOUNDED,
            "tests/unit/flame/test_frames.py"
            "::test_server_that_sends_64_kib_beside_its_data_is_told_as_one_that_sends_too_much",
            id="headers and settings of an answer",
        ),
        pytest.param(f"{_FLAME}.frames:RecordLimit.admits", "lambda *_: True",
            "tests/unit/flame/test_frames.py"
            "::test_server_that_sends_a_record_of_tls_for_each_byte_is_told_as_one_that_sends_too_much",
            id="records of TLS of an answer"),
        pytest.param(f"{_FLAME}.frames:MAX_HANDSHAKE_BYTES", "2**19",
            "tests/unit/flame/test_frames.py::test_certificates_of_more_than_some_kib_are_not_verified",
            id="the certificates of a session manager"),
        pytest.param(
            f"{_FLAME}.answer_memory:AnswerMemory.take",
            "lambda *_: __import__('asyncio').sleep(0)",
            "tests/unit/flame/test_client.py"
            "::test_large_answers_take_turns_and_none_waits_for_another_one_that_waits_for_it",
            id="the memory of all answers that arrive together",
        ),
        pytest.param(f"{_FLAME}.watcher:MAX_KEPT_SIZE", _UNBOUNDED,
            "tests/unit/flame/test_watcher.py::test_large_answers_of_all_session_managers_are_kept_up_to_a_limit",
            id="all answers that are kept"),
        pytest.param(
            f"{_FLAME}.knowledge:Knowledge.size",
            "property(lambda known: 0 if known.answer is None else known.answer.size)",
            "tests/unit/flame/test_watcher.py"
            "::test_names_of_first_answers_count_for_the_limit_when_later_answers_are_small",
            id="the names in first answers",
        ),
        pytest.param(f"{_FLAME}.watcher:MAX_ASKED_AT_ONCE", _UNBOUNDED,
            "tests/unit/flame/test_watcher.py::test_number_of_concurrent_questions_is_limited[30-32]",
            id="questions at the same time"),
        pytest.param("flamectl_operator.runtime.slots:OF_FREE", _UNBOUNDED,
            "tests/unit/flame/test_watcher.py::test_number_of_concurrent_questions_is_limited[1-24]",
            id="questions of a namespace at the same time"),
        pytest.param(
            "flamectl_operator.runtime.slots:Slots.slot",
            "lambda slots, group=None, slot=owner.slot: slot(slots)",
            "tests/unit/flame/test_watcher.py"
            "::test_session_manager_is_asked_in_time_beside_hundreds_of_another_namespace_that_answer_slowly",
            id="turns of namespaces to be asked",
        ),
        pytest.param(
            f"{_FLAME}.answer_memory:AnswerMemory.share",
            "lambda memory, namespace='', share=owner.share: share(memory)",
            "tests/unit/flame/test_client.py"
            "::test_large_answer_of_another_namespace_is_next_whatever_the_number_that_waits",
            id="turns of namespaces with large answers",
        ),
        pytest.param(
            f"{_FLAME}.pace:LONGEST_PAUSE_OF_OFFENDERS",
            "30.0",
            "tests/unit/flame/test_watcher.py"
            "::test_session_manager_whose_answers_are_too_large_is_asked_every_ten_minutes_in_the_end",
            id="questions to a session manager whose answers are too large",
        ),
        pytest.param("flamectl_operator.process.monitoring.http:TIMES_AS_LONG", "0.0",
            "tests/unit/process/monitoring/test_http.py"
            "::test_metrics_are_read_once_for_all_who_ask_within_five_times_as_long",
            id="readings of metrics"),
        pytest.param("flamectl_operator.process.monitoring.connections:REQUESTS_AT_ONCE", _UNBOUNDED,
            "tests/unit/process/monitoring/test_connections.py"
            "::test_requests_of_a_connection_are_answered_a_few_at_once_and_those_of_others_beside_them",
            id="requests of a connection"),
        pytest.param(f"{_FLAME}.watcher:KEPT_OFFENCES", "0",
            "tests/unit/flame/test_watcher.py"
            "::test_session_manager_whose_answers_are_too_large_wins_no_question_by_a_restart",
            id="questions to a session manager that restarts"),
        pytest.param("flamectl_operator.runtime.slots:OF_FREE", _UNBOUNDED,
            "tests/unit/test_many_clusters.py::test_a_change_in_another_namespace_waits_for_no_slow_pass",
            id="workers of a namespace"),
        pytest.param("flamectl_operator.runtime.slots:OF_FREE", _UNBOUNDED,
            "tests/unit/kube/http/test_limiting.py"
            "::test_slow_requests_about_a_namespace_do_not_delay_one_about_another_namespace",
            id="requests about a namespace"),
        pytest.param("flamectl_operator.process.settings_sources:MAX_FILE_SIZE", _UNBOUNDED,
            "tests/unit/process/test_settings_sources.py::test_file_that_is_no_settings_file_gets_one_line_at_once",
            id="a file with settings"),
        pytest.param("flamectl_operator.reconcile.lock.lock_state:MAX_LOCK_DURATION", _UNBOUNDED,
            "tests/unit/reconcile/lock/test_lock_state.py", id="the time of a deletion lock"),
        pytest.param("flamectl_operator.observed.executor:Bindings.is_invalid", "lambda *_: False",
            "tests/unit/planning/planners/test_rollout.py::test_executors_whose_mark_somebody_changed_stay_and_get_it_back",
            id="trust in marks that anybody may edit"),
        pytest.param("flamectl_operator.process.monitoring.steering:Steering.turn_away", "lambda *_: True",
            "tests/unit/process/monitoring/test_steering.py::test_chosen_address_is_refused_until_another_is_chosen",
            id="connections of a flood"),
        pytest.param(
            "flamectl_operator.process.monitoring.connections:_Connection.pause_writing",
            "lambda self: self._handler.pause_writing()",
            "tests/unit/process/monitoring/test_connections.py"
            "::test_answers_that_nobody_reads_are_few_and_another_address_gets_its_whole_one",
            id="answers that nobody reads",
        ),
    ],
)  # fmt: skip
def test_attack_succeeds_without_a_bound(
    place: str, value: str, test: str, forks: subprocess.Popen[str], tmp_path: Path
) -> None:
    assert forks.stdin is not None
    assert forks.stdout is not None
    log = tmp_path / "log"
    print(json.dumps([place, value, test, str(log)]), file=forks.stdin, flush=True)
    code, said = int(forks.stdout.readline()), log.read_text(encoding="utf-8")
    assert code == pytest.ExitCode.TESTS_FAILED, said
    assert "FAILED" in said

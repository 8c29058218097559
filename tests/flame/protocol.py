"""The messages by which executor managers and clients talk to a session manager, besides those that the operator uses."""

from flamectl_operator.flame.messages import MESSAGES, classes

_BY_EXECUTOR = (
    "RegisterExecutor",
    "UnregisterExecutor",
    "BindExecutor",
    "BindExecutorCompleted",
    "UnbindExecutor",
    "UnbindExecutorCompleted",
    "LaunchTask",
    "CompleteTask",
)

#: Gives the class of a message by its name, such as `LaunchTaskRequest`.
message_class = classes(
    {
        **MESSAGES,
        "SessionStatus": f"{MESSAGES['SessionStatus']}; repeated Event events = 8",
        **{f"{call}Request": "string executor_id = 1" for call in _BY_EXECUTOR},
        "RegisterExecutorRequest": "string executor_id = 1; ExecutorSpec executor_spec = 2",
        "BindExecutorResponse": "Application application = 1; Session session = 2",
        "BindExecutorCompletedRequest": "string executor_id = 1; Result result = 2",
        "LaunchTaskResponse": "Task task = 1",
        "CompleteTaskRequest": "string executor_id = 1; TaskResult task_result = 2",
        "TaskResult": "int32 return_code = 1; optional string message = 3",
        "Application": "Metadata metadata = 1",
        "ApplicationList": "repeated Application applications = 1",
        # The state is an enumeration. The events have its values as their codes.
        "TaskStatus": "int32 state = 1; repeated Event events = 4",
        "Task": "Metadata metadata = 1; TaskSpec spec = 2; TaskStatus status = 3",
        # The input consists of bytes; that of `flmping` is JSON.
        "TaskSpec": "string session_id = 2; optional string input = 3",
        "ListApplicationRequest": "",
        "ListExecutorRequest": "",
        "ListSessionRequest": "",
        "CreateSessionRequest": "string session_id = 1; SessionSpec session = 2",
        "CloseSessionRequest": "string session_id = 1",
        "CreateTaskRequest": "TaskSpec task = 1",
        "ListTaskRequest": "string session_id = 1",
        "GetTaskRequest": "string task_id = 1; string session_id = 2",
    }
)

#: States of tasks, by their numbers.
TASK_STATES = ("pending", "running", "succeeded", "failed", "cancelled")
#: The calls of executor managers for their executors, with what answers them.
EXECUTOR_CALLS = {
    call: {"BindExecutor": "BindExecutorResponse", "LaunchTask": "LaunchTaskResponse"}.get(call, "Result")
    for call in _BY_EXECUTOR
}
#: The same for clients.
CLIENT_CALLS = {
    "CreateSession": "Session",
    "CloseSession": "Session",
    "CreateTask": "Task",
    "GetTask": "Task",
    "ListApplication": "ApplicationList",
    "ListExecutor": "ExecutorList",
    "ListSession": "SessionList",
}

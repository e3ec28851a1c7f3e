"""tf.errors."""

from sparkflow_runtime.wire.errors import (
    ABORTED,
    ALREADY_EXISTS,
    CANCELLED,
    DATA_LOSS,
    DEADLINE_EXCEEDED,
    FAILED_PRECONDITION,
    INTERNAL,
    INVALID_ARGUMENT,
    NOT_FOUND,
    OK,
    OUT_OF_RANGE,
    PERMISSION_DENIED,
    RESOURCE_EXHAUSTED,
    UNAUTHENTICATED,
    UNAVAILABLE,
    UNIMPLEMENTED,
    UNKNOWN,
    AbortedError,
    AlreadyExistsError,
    CancelledError,
    DataLossError,
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    OutOfRangeError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
    UnknownError,
    error_class,
)

exception_type_from_error_code = error_class


def error_code_from_exception_type(cls: type[OpError]) -> int:
    return cls.code


class raise_exception_on_not_ok_status:
    """`with` it, as C APIs of TensorFlow were called; errors are raised here as they come."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None

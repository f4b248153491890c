"""What tools of the tests do again and again, done once: the same is checked in less time."""

import functools
from collections.abc import Callable

import jaxtyping

_SIGNS_OF_SHAPES = ("jaxtyping.", "[Tensor")  # in an annotation, and in one that is still text


def check_shapes_where_there_are_any() -> None:
    """Lets jaxtyping mind functions whose annotations have shapes; its type checker minds the others alone, and much faster.

    Functions within functions would be compiled at every call of the one around them, which takes longer than all they do:
    without shapes, they are left to mypy.
    """
    mind_shapes = jaxtyping.jaxtyped

    def decorate(*, typechecker: Callable) -> Callable:
        def mind(function: Callable | type) -> Callable | type:
            if isinstance(function, type) or _has_shapes(function):
                return mind_shapes(typechecker=typechecker)(function)
            return function if "<locals>" in function.__qualname__ else typechecker(function)

        return mind

    jaxtyping.jaxtyped = decorate


def _has_shapes(function: Callable) -> bool:
    return any(sign in str(annotation) for annotation in function.__annotations__.values() for sign in _SIGNS_OF_SHAPES)


def prepare_the_language_once_a_launch() -> None:
    """Lets Triton's interpreter put its own functions into `triton.language` once a launch, not at every call within a kernel."""
    from triton.runtime import interpreter

    prepare, launch = interpreter._patch_lang, interpreter.GridExecutor.__call__
    prepared = set()  # modules that the current launch has prepared the language for

    def prepare_once(function):
        if id(function.__globals__) in prepared:
            return None  # the launch, which comes first, takes back what it did
        prepared.add(id(function.__globals__))
        return prepare(function)

    @functools.wraps(launch)
    def launch_anew(*args, **options):
        prepared.clear()
        try:
            return launch(*args, **options)
        finally:
            prepared.clear()

    interpreter._patch_lang, interpreter.GridExecutor.__call__ = prepare_once, launch_anew

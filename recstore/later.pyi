from collections.abc import Callable, Mapping, Sequence

def later(
    package: dict[str, object], names: Mapping[str, str], modules: Sequence[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]: ...

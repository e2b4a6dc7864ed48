"""The error messages and warnings of the Python and Cython files of a package, read from their sources.

`messages(root)` looks at every call of an exception class, of `warnings.warn`, of a logger's `warning` and of the monitor's. The text there may be
put together of literals, of local variables and constants, and of what functions of the package return; where it has a
parameter, the callers are followed. All else is a HOLE, and so is a part of fewer than three words: a name, a unit.
"""

import ast
import builtins

from messages_cython import tree as cython_tree

HOLE = "…"
_MOST = 48  # ways in which a text can be put together; more are a HOLE
_DEEP = 7
_NAMING = {"shown", "spelled"}  # functions that return names of things, which are a HOLE


class Parameter:
    def __init__(self, name):
        self.name = name


def parts_of(texts):
    """The texts that are worth a message of their own as a part of others: those of three words and more, and parameters.
    If there are none, one HOLE."""
    kept = [t for t in texts if (len(t) == 1 and isinstance(t[0], Parameter)) or _words(t) > 2]
    if not kept and texts == [("",)]:
        return texts
    return kept or [(HOLE,)]


def _words(text):
    flat = "".join(HOLE if isinstance(part, Parameter) else part for part in text)
    return len([word for word in flat.split() if word.strip("\"'(),:;!?").replace("-", "").isalpha()])


class Function:
    """A function with the statements that are its own, and the module and class that it is in."""

    def __init__(self, module, node, cls):
        self.module, self.node, self.cls, self.name = module, node, cls, node.name
        args = node.args
        plain = [*args.posonlyargs, *args.args]
        static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)
        self.bound = cls is not None and not static
        self.params = [a.arg for a in plain[1 if self.bound else 0 :]] + [a.arg for a in args.kwonlyargs]
        self.defaults = dict(zip([a.arg for a in plain][::-1], args.defaults[::-1]))
        self.defaults |= {a.arg: d for a, d in zip(args.kwonlyargs, args.kw_defaults) if d is not None}
        self.own = list(_own(node))
        self.blocks = {}  # of a statement and of what is in it: the statements of its block, its place, and what it is in
        if module.path.suffix == ".py":  # statements of a .pyx file have lost their blocks
            _note_blocks(self.blocks, node, None)

    def before(self, name, use):
        """The expressions that the statements before a use of a name give it, back to the one that stands in the way of
        the use; none if there is no such one."""
        found, spot = [], self.blocks.get(id(use))
        while spot is not None:
            block, place, above = spot
            for statement in reversed(block[:place]):
                given = _given(name, [statement, *_own(statement)])
                found += given
                if given and isinstance(statement, ast.Assign):
                    return found
            spot = above
        return []


def _own(node):
    """The nodes within a function or module that are in no function inside of it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        yield child
        yield from _own(child)


def _note_blocks(blocks, node, spot):
    for _, value in ast.iter_fields(node):
        is_block = isinstance(value, list) and value and isinstance(value[0], ast.stmt)
        for place, child in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(child, ast.AST) or isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                continue
            inner = (value, place, spot) if is_block else spot
            blocks[id(child)] = inner
            _note_blocks(blocks, child, inner)


class Module:
    def __init__(self, path, name):
        self.path, self.name = path, name
        text = path.read_text(encoding="utf-8")
        self.tree = cython_tree(text) if path.suffix == ".pyx" else ast.parse(text)
        self.imports, self.functions, self.classes = {}, [], {}
        self._collect(self.tree, None)
        self.top = Function(self, ast.parse("def top(): pass").body[0], None)
        self.top.own = list(_own(self.tree))
        self.functions.append(self.top)

    def _collect(self, node, cls):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ImportFrom):
                for alias in child.names:
                    self.imports[alias.asname or alias.name] = (child.module or "", alias.name)
            elif isinstance(child, ast.Import):
                for alias in child.names:
                    self.imports[alias.asname or alias.name] = (alias.name, None)
            if isinstance(child, ast.ClassDef):
                self.classes[child.name] = child
                self._collect(child, child.name)
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.functions.append(Function(self, child, cls))
                self._collect(child, None)
            else:
                self._collect(child, cls)


def _last(func):
    return func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else None


class Package:
    def __init__(self, root):
        files = [p for kind in ("py", "pyx") for p in sorted((root / "recstore").rglob(f"*.{kind}"))]
        files = [p for p in files if p.name != "own_state.py"]  # runs in a build and is not installed
        self.modules = [Module(p, ".".join(p.relative_to(root).with_suffix("").parts)) for p in files]
        self.functions = [f for m in self.modules for f in m.functions]
        self.by_name = {}
        for function in self.functions:
            self.by_name.setdefault(function.name, []).append(function)
        bases = {c.name: [_last(b) for b in c.bases] for m in self.modules for c in m.classes.values()}
        self.exceptions = {n for n, c in vars(builtins).items() if isinstance(c, type) and issubclass(c, BaseException)}
        while more := {n for n, names in bases.items() if n not in self.exceptions and self.exceptions & set(names)}:
            self.exceptions |= more
        self.system = {n for n in self.exceptions if isinstance(getattr(builtins, n, None), type)}
        self.system = {n for n in self.system if issubclass(getattr(builtins, n), OSError)}
        for name, names in bases.items():
            if self.system & set(names):
                self.system.add(name)
        self.callers, self.busy = {}, []
        for function in self.functions:
            for node in function.own:
                if isinstance(node, ast.Call) and _last(node.func):
                    self.callers.setdefault(_last(node.func), []).append((function, node))

    # ---- Which function a call means ----

    def meant(self, call, function):
        """The functions of the package that a call can mean."""
        name = _last(call.func)
        found = self.by_name.get(name, [])
        if isinstance(call.func, ast.Name):
            here = [f for f in found if f.module is function.module and f.cls is None]
            if here or function.module.path.suffix == ".pyx":
                return here or [f for f in found if f.module.path.suffix == ".pyx" and f.cls is None]
            origin = function.module.imports.get(name)
            return [f for f in found if origin and f.cls is None and self._is(f.module, origin[0])]
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
            owner = call.func.value.id
            if owner in ("self", "cls", "super"):
                return [f for f in found if f.cls == function.cls] or [f for f in found if f.cls is not None]
            if owner in function.module.imports:
                origin, inner = function.module.imports[owner]
                whole = origin if inner is None else f"{origin}.{inner}"
                return [f for f in found if f.cls is None and self._is(f.module, whole)]
        methods = [f for f in found if f.cls is not None]
        return methods if len(methods) == 1 and not any(hasattr(kind, name) for kind in (str, dict, list, set)) else []

    @staticmethod
    def _is(module, name):
        if name == "recstore._core.native":
            return module.path.suffix == ".pyx"
        return module.name in (name, f"{name}.__init__") or module.name.endswith("." + name)

    # ---- Texts ----

    def texts(self, node, function, given=None, depth=0):
        """The texts that an expression can be: tuples of str and Parameter. `given` has the texts of parameters."""
        found = list(dict.fromkeys(self._texts(node, function, given, depth)))
        return found if 0 < len(found) <= _MOST else [(HOLE,)]

    def _texts(self, node, function, given, depth):
        if depth > _DEEP:
            return [(HOLE,)]
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
            return [(node.value if isinstance(node.value, str) else node.value.decode("utf-8", "replace"),)]
        if isinstance(node, ast.JoinedStr):
            return self._product([self._piece(v, function, given, depth) for v in node.values])
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._product(
                [parts_of(self.texts(side, function, given, depth + 1)) for side in (node.left, node.right)]
            )
        if isinstance(node, ast.IfExp):
            return [t for n in (node.body, node.orelse) for t in self.texts(n, function, given, depth + 1)]
        if isinstance(node, ast.BoolOp):
            return [t for n in node.values for t in self.texts(n, function, given, depth + 1)]
        if isinstance(node, ast.Subscript):
            if isinstance(node.slice, ast.Slice):
                return self.texts(node.value, function, given, depth + 1)
            return self._looked_up(node.value, function, given, depth)
        if isinstance(node, ast.Name):
            return self._named(node, function, given, depth)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return self._constant(node.attr, function.module.imports.get(node.value.id), depth)
        if isinstance(node, ast.Call):
            return self._called(node, function, given, depth)
        return [(HOLE,)]

    def _piece(self, node, function, given, depth):
        if isinstance(node, ast.Constant):
            return [(node.value,)]
        if node.conversion in (114, 97) or node.format_spec is not None:
            return [(HOLE,)]
        return parts_of(self.texts(node.value, function, given, depth + 1))

    @staticmethod
    def _product(parts):
        """The parts joined so that each alternative stands in one text at least; not every alternative with every other."""
        most = max(map(len, parts), default=0)
        return [sum((part[i % len(part)] for part in parts), ()) for i in range(most)]

    def _looked_up(self, owner, function, given, depth):
        """The values of a dict of the module, or of a list or tuple."""
        value = self._assigned(owner.id, function) if isinstance(owner, ast.Name) else []
        literals = [v for d in value if isinstance(d, ast.Dict) for v in d.values]
        literals += [v for d in value if isinstance(d, (ast.List, ast.Tuple)) for v in d.elts]
        return [t for v in literals for t in self.texts(v, function, given, depth + 1)] or [(HOLE,)]

    def _assigned(self, name, function):
        """The expressions that a name is given in the function, else in its module."""
        for owner in dict.fromkeys((function, function.module.top)):
            found = _given(name, owner.own)
            if found:
                return found
        return []

    def _named(self, node, function, given, depth):
        name = node.id
        if (name, function) in self.busy:
            return [(HOLE,)]  # a text that is lengthened
        self.busy.append((name, function))
        try:
            return self._value(node, function, given, depth)
        finally:
            self.busy.pop()

    def _value(self, node, function, given, depth):
        name = node.id
        assigned = function.before(name, node) or self._assigned(name, function)
        texts = [t for node in assigned for t in self.texts(node, function, given, depth + 1)]
        if name in function.params:
            own = given.get(name, [(HOLE,)]) if given is not None else [(Parameter(name),)]
            local = [t for t in texts if t != (HOLE,)] if function is not function.module.top else []
            return own + local if assigned and depth < 3 else own
        if not texts and function.module.path.suffix == ".pyx":  # they are one module
            tops = [module.top for module in self.modules if module.path.suffix == ".pyx"]
            texts = [t for top in tops for n in _given(name, top.own) for t in self.texts(n, top, None, depth + 1)]
        if not texts and name in function.module.imports:
            return self._constant(name, function.module.imports[name], depth)
        return texts or [(HOLE,)]

    def _constant(self, name, origin, depth):
        if origin is None:
            return [(HOLE,)]
        whole = origin[0] if origin[1] in (None, name) else f"{origin[0]}.{origin[1]}"
        for module in self.modules:
            if self._is(module, whole):
                found = self._assigned(name, module.top)
                if found:
                    return [t for n in found for t in self.texts(n, module.top, None, depth + 1)]
        return [(HOLE,)]

    def _called(self, node, function, given, depth):
        """What a function of the package returns, with its parameters filled in."""
        if isinstance(node.func, ast.Attribute) and node.func.attr == "decode":
            return self.texts(node.func.value, function, given, depth + 1)
        found = []
        for callee in self.meant(node, function) if _last(node.func) not in _NAMING else ():
            taken = self._arguments(node, callee)
            inner = {p: self.texts(taken[p], function, given, depth + 2) for p in callee.params if p in taken}
            for own in callee.own:
                if isinstance(own, ast.Return) and own.value is not None:
                    found += self.texts(own.value, callee, inner, depth + 1)
        kept = [t for t in found if t not in ((HOLE,), ("",))]
        return kept + ([("",)] if ("",) in found else []) + ([(HOLE,)] if (HOLE,) in found or not found else [])

    @staticmethod
    def _arguments(call, callee):
        """The expressions that a call gives for the parameters, defaults included."""
        taken = dict(callee.defaults)
        for name, value in zip(callee.params, call.args):
            if isinstance(value, ast.Starred):
                break
            taken[name] = value
        return taken | {k.arg: k.value for k in call.keywords if k.arg}

    # ---- Messages ----

    def followed(self, function, text, seen=()):
        """The texts without parameters: what the callers of the function give for them."""
        names = {part.name for part in text if isinstance(part, Parameter)}
        flat = tuple(HOLE if isinstance(part, Parameter) else part for part in text)
        if not names or function in seen or len(seen) > 4:
            return [flat]
        found = []
        for caller, call in self.callers.get(function.name if function.name != "__init__" else function.cls, ()):
            if function not in self.meant(call, caller) and function.name != "__init__":
                continue
            taken = self._arguments(call, function)
            ways = [self.texts(taken[p.name], caller) if isinstance(p, Parameter) and p.name in taken else
                    [(HOLE,)] if isinstance(p, Parameter) else [(p,)] for p in text]  # fmt: skip
            if len(ways) > 1:
                ways = [parts_of(way) if isinstance(p, Parameter) else way for p, way in zip(text, ways)]
            for way in self._product(ways):
                found += self.followed(caller, way, (*seen, function))
        return found or [flat]

    def text_of(self, call, name):
        """The expression of the message in a call of an exception class; None without one."""
        plain = [a for a in call.args if not isinstance(a, ast.Starred)]
        if name in self.system and len(plain) > 1:
            return plain[1]
        return plain[0] if plain else None


def _given(name, nodes):
    """The expressions that these nodes give a name."""
    found = []
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                found += _bound(name, target, node.value)
        elif isinstance(node, ast.AugAssign) and _bound(name, node.target, node.value):
            found.append(ast.BinOp(ast.Name(HOLE), ast.Add(), node.value))  # the end of a longer text
        elif isinstance(node, ast.NamedExpr) and node.target.id == name:
            found.append(node.value)
        elif isinstance(node, ast.For):
            found += _bound_in_loop(name, node.target, node.iter)
    return found


def _bound(name, target, value):
    if isinstance(target, ast.Name):
        return [value] if target.id == name else []
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return [v for t, one in zip(target.elts, value.elts) for v in _bound(name, t, one)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.IfExp):
        return _bound(name, target, value.body) + _bound(name, target, value.orelse)
    return []


def _bound_in_loop(name, target, value):
    if not isinstance(value, (ast.Tuple, ast.List)):
        return []
    return [v for element in value.elts for v in _bound(name, target, element)]


def _kind_and_text(package, function, call, raised):
    """The class and the expression of the text, if a call gives a message; else None twice."""
    name, args = _last(call.func), call.args
    if name in package.exceptions:
        return name, package.text_of(call, name)
    if name in ("warn", "warn_explicit") and isinstance(call.func, ast.Attribute):
        return (_last(args[1]) if len(args) > 1 else "UserWarning"), args[0]
    if name in ("warning", "error", "_say") and isinstance(call.func, ast.Attribute):
        return "warning", args[0] if args else None
    if name == "add_note" and isinstance(call.func, ast.Attribute):
        return "note", args[0]
    if name == "event" and len(args) > 1 and isinstance(args[0], ast.Constant) and args[0].value == "warning":
        return "warning", args[1]
    if id(call) in raised and isinstance(call.func, ast.Name) and not package.meant(call, function):
        return None, package.text_of(call, "OSError" if len(args) > 1 else "")
    return None, None


def messages(root):
    """(class, text, "path:line") of each message; the class is None where a variable names it, "warning" for what goes
    to a log, and "note" for a note of an exception."""
    package = Package(root)
    for function in package.functions:
        raised = {id(n.exc) for n in function.own if isinstance(n, ast.Raise)}
        for call in [n for n in function.own if isinstance(n, ast.Call)]:
            kind, node = _kind_and_text(package, function, call, raised)
            if node is None:
                continue
            place = f"{function.module.path}:{call.lineno}"
            for text in package.texts(node, function):
                for flat in package.followed(function, text):
                    yield kind, "".join(flat), place

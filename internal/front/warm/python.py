import json, sys, types

_options = json.loads(sys.argv.pop())
_warm = types.ModuleType("forkcell.warm")
sys.modules["forkcell.warm"] = _warm
exec(compile(_source, "forkcell/warm.py", "exec"), _warm.__dict__)
for _name in _options["import"]:
    exec("import " + _name)
if _options["script"]:
    __file__ = sys.argv[0] = _options["script"]
    with open(__file__, "rb") as _file:
        exec(compile(_file.read(), __file__, "exec"))
sys.modules["forkcell.warm"].serve()

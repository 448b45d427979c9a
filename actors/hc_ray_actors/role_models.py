"""Each role's model in a plan: its engine, its profile, and the digest of both for the trials' keys."""

import asyncio
import sys
from collections.abc import Mapping, Sequence

from hc_ray.domain.config import TESTERS, EngineConfig, RoleName, SweepConfig
from hc_ray.domain.errors import ConfigError, ModelError
from hc_ray.domain.ports import Capabilities
from hc_ray.domain.profile import Profile, usable
from hc_ray.domain.trial import WITHOUT_MODEL
from hc_ray.domain.value import Value, digest_of
from hc_ray.engines.catalogue import ResolvedModel, catalogue, resolve, resolve_remote
from hc_ray.engines.profiles import WHOLE_CONTEXT, for_context, of_model, own_settings
from hc_ray.engines.scripted import load_script
from hc_ray.engines.speed import known_speed
from hc_ray.engines.wire import SCHEMA_FIELD
from hc_ray.reports.terminal import say
from hc_ray_actors.engine import EMBEDDED_CONTEXT, capabilities_of, model_of

TELL_SECONDS = 3.0
"""Seconds after which the user is told what planning is waiting for."""
Planned = tuple[EngineConfig, Profile, str]
"""Engine, profile, digest of model and profile."""
Looked = dict[EngineConfig, tuple[Capabilities, ...]]
"""External engine → its servers' probed capabilities; our own engines are not in it."""


class RoleModels(Value):
    """The models of a sweep."""

    models: dict[RoleName, Planned]
    """Empty if no agent uses one."""
    notes: tuple[str, ...] = ()
    """Limitations of servers that the plan takes into account, for display."""


def role_models(config: SweepConfig, looked: Looked | None = None) -> RoleModels:
    """The model of every role in use. Probes external servers, once for all roles that share one, so that their
    limitations go into the trials' keys; ``looked`` caches the results. Raises ``ModelError`` or ``ConfigError``."""
    looked = {} if looked is None else looked
    if not set(config.agents) - WITHOUT_MODEL:
        return RoleModels(models={})
    further = tuple(role for role in TESTERS[1:] if role in config.roles)
    parts: tuple[RoleName, ...] = ("decomposer",) if config.solver.decompose == "model" else ()
    roles: tuple[RoleName, ...] = ("tester", *further, *parts, "solver")
    wanted = {role: role_model(config.roles.get(role, config.engine)) for role in roles}
    engines = dict.fromkeys(engine for engine, _, _ in wanted.values())
    looked |= {engine: _look(engine) for engine in engines if engine not in looked}
    seen = {engine: _common(looked[engine]) for engine in engines}
    models = {role: role_model(engine, seen[engine]) for role, (engine, _, _) in wanted.items()}
    restricted: dict[EngineConfig, list[RoleName]] = {}
    for role in roles:
        (_, now, _), (_, wish, _) = models[role], wanted[role]
        if (now.form, now.test_form) != (wish.form, wish.test_form):
            restricted.setdefault(models[role][0], []).append(role)
    notes = []
    for engine, them in restricted.items():
        form = models[them[0]][1].form
        only = "chat, not completions" if form == "chat" else "completions, not chat"
        notes.append(f"{', '.join(them)}: {engine.label} supports only {only}; prompts use the {form} format")
    notes += [note for engine in seen for note in _told(engine, seen[engine])]
    given = dict.fromkeys(config.roles.get(role, config.engine) for role in roles)
    notes += [note for engine in given if (note := _window(engine))]
    return RoleModels(models=models, notes=(*_why_profile(models, seen), *notes))


def role_model(engine: EngineConfig, capabilities: Capabilities | None = None) -> Planned:
    """The engine with its weights' digest and sampling parameters, the profile restricted to what a server with these
    capabilities supports, and the digest of both. Raises ``ModelError`` or ``ConfigError``."""
    identity: list[str | None]
    known, capable = True, capabilities or Capabilities()
    if engine.kind == "embedded":
        model = _weights(engine)
        profile, known, identity = model.profile, model.measured, [model.digest]
        engine = engine.model_copy(update={"sha256": model.digest})
    elif engine.remote:
        if not engine.urls:
            raise ConfigError("--engine openai needs --base-url URL (for example http://127.0.0.1:11434/v1)")
        if engine.kind == "anthropic" and "model" not in engine.model_fields_set:
            raise ConfigError("--engine anthropic needs --model NAME (for example claude-sonnet-4-5)")
        model = resolve_remote(engine.model)
        where = " ".join(engine.urls)
        profile, known, identity = model.profile, model.measured, [engine.kind, f"{where}#{engine.model}"]
    elif engine.kind == "server":
        if not engine.command:
            raise ConfigError("--engine server needs a command (for example --set engine.command=vllm)")
        model = model_of(engine)
        profile, known, identity = model.profile, model.measured, [engine.kind, engine.command, model.digest]
        engine = engine.model_copy(update={"sha256": model.digest if model.path else None})
    else:
        if not engine.script:
            raise ConfigError("--engine scripted needs --script MODULE:FUNCTION to answer the prompts")
        load_script(engine.script)
        profile, identity = Profile(), [engine.kind, engine.script]
    context = context_of(engine, capabilities)
    if engine.kind == "server":
        engine = engine.model_copy(update={"context_tokens": context})
    if "parallel" not in engine.model_fields_set and (speed := known_speed(engine)):
        engine = engine.model_copy(update={"parallel": speed.knee})
    profile = of_model(profile, context) if known else for_context(context, chat=capable.chat)[0]
    # Both need it: the profile for the digest, the engine for the node that probes whether its server accepts it.
    sampling = engine.sampling or profile.sampling
    engine = engine.model_copy(update={"sampling": sampling})
    profile = usable(profile.model_copy(update={"sampling": sampling}), capable)
    return engine, profile, digest_of([*identity, profile.digest])


def context_of(engine: EngineConfig, capabilities: Capabilities | None) -> int:
    """Tokens of context that prompts may use, as configured or else as probed."""
    if engine.context_tokens is not None:
        return engine.context_tokens
    if engine.kind == "server":
        entry = catalogue().get(engine.model)
        return min(WHOLE_CONTEXT, entry.context_tokens if entry else WHOLE_CONTEXT)
    seen = capabilities.context if capabilities else None
    return (seen or WHOLE_CONTEXT) if engine.remote else EMBEDDED_CONTEXT


def _why_profile(models: Mapping[RoleName, Planned], seen: Mapping[EngineConfig, Capabilities | None]) -> list[str]:
    """Each engine's profile, and why it was chosen; one line per engine."""
    told = {}
    for engine, profile, _ in models.values():
        guessed = profile.measured.startswith("not measured")
        sets = ", ".join(f"{key}: {value}" for key, value in own_settings(profile).items())
        sets = f"; unless set otherwise {sets}" if sets else ""
        looked = seen.get(engine)
        assumed = engine.context_tokens is None and looked is not None and looked.context is None
        chat = looked is None or looked.chat
        said = for_context(profile.context_tokens, assumed=assumed, chat=chat)[1]
        why = said if guessed else f"measured for this model{sets}"
        if assumed:
            why += "; the server does not report it: set engine.context_tokens"
        elif guessed and chat and profile.name == "tiny":
            why += "; engine.context_tokens gives it more"
        told[engine] = f"{engine.label}: profile `{profile.name}` ({why})"
    return [text for engine, text in told.items() if engine.kind != "scripted"]


def _weights(engine: EngineConfig) -> ResolvedModel:
    model = resolve(engine.model)
    if engine.sha256 not in (None, model.digest):
        raise ModelError(f"{model.path} has SHA-256 {model.digest}, but the config requires {engine.sha256}")
    return model


def _window(engine: EngineConfig) -> str | None:
    """A note if the number of parallel requests was measured, not set."""
    if "parallel" in engine.model_fields_set or not (speed := known_speed(engine)):
        return None
    return f"{engine.label}: {speed.knee} parallel requests (by `engine bench`: {speed.measured or 'measured here'})"


def _look(engine: EngineConfig) -> tuple[Capabilities, ...]:
    """Probe each external server; our own can do everything that a profile needs."""
    if not engine.remote:
        return ()

    async def look() -> list[Capabilities]:
        told = f"probing {', '.join(engine.urls)} …"
        asyncio.get_running_loop().call_later(TELL_SECONDS, lambda: say(told, stream=sys.stderr, style="dim"))
        return await asyncio.gather(*(capabilities_of(engine, url) for url in engine.urls))

    return tuple(asyncio.run(look()))


def _common(seen: Sequence[Capabilities]) -> Capabilities | None:
    """The capabilities that all of an engine's servers share."""
    if not seen:
        return None
    weakest = {name: all(getattr(one, name) for one in seen) for name in ("chat", "completion", "tools")}
    contexts = [one.context or WHOLE_CONTEXT for one in seen] if any(one.context for one in seen) else []
    refused = tuple(dict.fromkeys(name for one in seen for name in one.refused))
    return seen[0].model_copy(update={**weakest, "context": min(contexts, default=None), "refused": refused})


def _told(engine: EngineConfig, seen: Capabilities | None) -> list[str]:
    """Notes on what a server refuses; of two spellings of a parameter, one is enough."""
    if seen is None:
        return []
    told = []
    if engine.kind == "openai" and seen.models and engine.model not in seen.models:
        shown = ", ".join(seen.models[:4]) + (", ..." if len(seen.models) > 4 else "")
        told.append(f"{engine.label}: the server answers to this name, but lists only {shown}")
    if SCHEMA_FIELD in seen.refused:
        told.append(
            f"{engine.label} accepts no JSON schema with a request; only the prompts state the form of an answer"
        )
    refused = [name for name in seen.refused if name != SCHEMA_FIELD]
    if "repetition_penalty" not in refused or "repeat_penalty" not in refused:
        refused = [name for name in refused if name not in ("repetition_penalty", "repeat_penalty")]
    return [*told, f"{engine.label} rejects {', '.join(refused)} and uses its own values"] if refused else told

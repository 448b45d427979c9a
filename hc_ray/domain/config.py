"""All settings of hc-ray, with defaults and descriptions: one YAML file is one ``SweepConfig``."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    WrapValidator,
    field_validator,
    model_validator,
)

from hc_ray.domain.credentials import url_fault
from hc_ray.domain.engine_config import EngineConfig as EngineConfig
from hc_ray.domain.engine_config import Sampling as Sampling
from hc_ray.domain.value import OWN as OWN
from hc_ray.domain.value import DescribedValue, Value, digest_of, or_own
from hc_ray.domain.variants import named_configs, value_lists

AgentName = Annotated[Literal["raw", "best_of_n", "hc", "oracle", "nop"], WrapValidator(or_own)]
SelectorName = Annotated[Literal["max_pass", "codet", "mbr", "posterior"], WrapValidator(or_own)]
SELECTORS: tuple[SelectorName, ...] = ("max_pass", "codet", "mbr", "posterior")
RoleName = Literal["tester", "tester_2", "tester_3", "tester_4", "decomposer", "solver", "meta"]
TESTERS: tuple[RoleName, ...] = ("tester", "tester_2", "tester_3", "tester_4")
"""The roles of the testers that together write one suite."""
Form = Literal["chat", "completion"]


class TestgenConfig(DescribedValue):
    """How self-tests are generated and admitted."""

    __test__ = False

    tests_per_category_min: int = Field(2, ge=2, le=10)
    """Minimum number of tests for each category that applies."""
    tests_per_category_max: int = Field(5, ge=2, le=20)
    """Maximum number of tests per category."""
    total_min: int = Field(10, ge=1)
    """Minimum number of tests in a suite."""
    total_max: int = Field(30, ge=1)
    """Maximum number of tests in a suite."""
    rounds: int = Field(2, ge=1, le=5)
    """Generation rounds per category."""
    temperature: float = Field(0.7, ge=0, le=2)
    """Sampling temperature of the tester."""
    style: Literal["lines", "files"] = "lines"
    """How the tester writes tests. ``files``: whole test files, for any task; ``lines``: one line a test, for small
    models and tasks that name one file."""
    answer_tokens: int = Field(1200, ge=64)
    """Style ``files``: maximum length of an answer in tokens."""
    budget_tokens: int = Field(1500, ge=0)
    """Token budget of a suite, prompt and completion tokens together."""
    seconds: float = Field(1800.0, gt=0)
    """Time limit of writing and gating a suite; it does not count towards the trial's."""
    gate: Literal["off", "basic"] = "basic"
    """Which gate admits tests; ``off`` only requires that a test parses and that no other contradicts it."""
    second_reading: bool = True
    """Style ``files``: whether a second, independent reading of the tests may drop those that the task contradicts."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.total_min > self.total_max:
            raise ValueError("total_min must not be greater than total_max")
        if self.tests_per_category_min > self.tests_per_category_max:
            raise ValueError("tests_per_category_min must not be greater than tests_per_category_max")
        return self


class SolverConfig(DescribedValue):
    """Every parameter of the search. Its hash identifies the config."""

    agent_style: Literal["direct", "loop"] = "direct"
    """How a candidate is made, by every agent. ``loop``: an agent works in its own sandbox, turn by turn, until it
    submits (a lineage); ``direct``: one answer contains the files."""
    actions: Literal["fenced", "calls"] = "fenced"
    """Style ``loop``: format of actions, ``fenced`` code blocks or native tool ``calls``."""
    observation_chars: int = Field(4000, ge=200)
    """Style ``loop``: maximum number of characters of a command's output that the model is shown; the rest is in a
    file."""
    command_seconds: float = Field(60.0, gt=0)
    """Style ``loop``: time limit of a command for which the model sets none."""
    tournament: bool = False
    """Style ``loop``: where the suite cannot tell states apart, each lineage writes tests that run on the others'
    states, and the model compares the lineages' summaries."""
    use_skills: bool = False
    """Whether the prompts of every agent include the skills that match the instruction (``hc-ray skills list``). Off:
    no measurement has shown a benefit."""
    skill_tokens: int = Field(300, ge=0)
    """Maximum number of tokens that skills may add to a prompt."""
    temperatures: tuple[Annotated[float, Field(ge=0, le=2)], ...] = Field((0.3, 0.5, 0.7), min_length=1)
    """Sampling temperatures, from precise to exploratory; candidates take them in turn."""
    greedy: int = Field(2, ge=0, le=16)
    """Number of plans that are first tried at the profile's best single temperature, before ``temperatures``."""
    plans: tuple[str, ...] = Field(("plain", "simple", "literal", "edge_first", "examples", "steps"), min_length=1)
    """Plans (prompt variations in ``agent/prompts``), in the order in which every agent uses them; ``raw`` uses the
    first."""
    samples: int = Field(4, ge=1, le=256)
    """Candidates per ordinary round; style ``loop``: parallel lineages per round after the first."""
    samples_max: int = Field(8, ge=1, le=256)
    """Candidates in a round that follows mixed signals, that is, tests or candidates that contradict each other; style
    ``loop``: lineages that ``best_of_n`` starts at most."""
    patience: int = Field(8, ge=1)
    """Number of candidates without a new best after which the search restarts, without repairs."""
    max_rounds: int = Field(10, ge=1, le=10)
    """Maximum number of rounds of implementing and verifying."""
    max_turns: int = Field(30, ge=1)
    """Solver answers of all candidates together, at most; style ``loop``: answers of each lineage, at most."""
    repairs: int = Field(2, ge=0, le=10)
    """Repairs per lineage."""
    selector: SelectorName = "posterior"
    """How ``hc`` selects a candidate, or ``module:function`` of your own (docs/python.md). ``best_of_n`` always uses
    ``mbr``, on inputs that come from no suite."""
    feedback: Literal["full", "trusted", "crashes"] = "trusted"
    """Which failed self-tests a repair prompt shows."""
    hint: str = Field("", max_length=150)
    """A general hint that every solver prompt includes. It must not be specific to a task."""
    max_answer_tokens: int = Field(400, ge=16)
    """Maximum length of an answer in tokens."""
    decompose: Literal["generic", "model"] = "generic"
    """Whether the solver is told parts of its work. ``generic``: none; ``model``: those that the decomposer names, or
    the same four for every task where it names none. Off: no measurement has shown a benefit."""
    refinement: int = Field(0, ge=0, le=2)
    """Number of further verdicts a trial may ask for after a failed one; each reveals one bit."""
    testgen: TestgenConfig = TestgenConfig()

    @property
    def hash(self) -> str:
        """SHA-256 of all parameters."""
        return digest_of(self)


class BudgetConfig(DescribedValue):
    """What a trial may cost."""

    tokens: int = Field(6000, ge=1)
    """Token budget of a trial, prompt plus completion tokens as the engine counts them; of a lineage's prompts only
    what goes beyond the previous prompt. It bounds ``hc`` (including its suite) and ``best_of_n`` alike."""
    lineage_tokens: int | None = Field(None, ge=1)
    """Token budget of one lineage (``agent_style: loop``), the same for every agent; None: a quarter of ``tokens``."""
    timeout_multiplier: float = Field(1.0, gt=0)
    """Multiplier of each task's ``[agent] timeout_sec``, which limits a trial's wall time; shown beside every score."""
    default_timeout_sec: float = Field(900.0, gt=0)
    """Wall time limit of a trial whose task sets none."""


class RetryConfig(Value):
    """Retries after failures outside the sandboxes."""

    attempts: int = Field(4, ge=1, le=20)
    """Maximum number of attempts, including the first, at a trial, a grading or a control run; after the last one the
    trial is unscored."""
    backoff_sec: float = Field(2.0, ge=0, le=600)
    """Seconds before the second attempt; they double for each further attempt, up to 90 seconds including jitter."""
    outage_sec: float = Field(60.0, ge=0)
    """Seconds to wait for a Docker daemon or an engine that does not respond, before the sweep stops."""


SeedsPerLook = Annotated[int, Field(ge=1, le=50)]
"""Bounded so that five looks never reach the seeds of a generation's other parts (``climb.generation``)."""


class ClimbSettings(Value):
    """The terms that a climb declares before its first trial."""

    generations: int = Field(20, ge=1, le=900)
    """Maximum number of generations; in each, every proposer suggests one change."""
    tokens: int = Field(5_000_000, ge=1)
    """Token budget of the whole climb, including control, confirmations and the meta-reasoner."""
    looks: tuple[SeedsPerLook, ...] = Field((1, 1), min_length=1, max_length=5)
    """Seeds per task that each look of a race adds."""
    confirm: tuple[SeedsPerLook, ...] = Field((2, 4), min_length=1, max_length=5)
    """Seeds per task that each look of a confirmation adds; only the last accepts."""
    race_alpha: float = Field(0.15, gt=0, le=0.5)
    """One-sided level of a race, all its looks together."""
    alpha: float = Field(0.1, gt=0, le=0.5)
    """Upper bound of the chance to accept any change if none beats the incumbent in passes or tokens."""
    confirmations: int = Field(4, ge=1)
    """How many confirmations may fail before the next acceptance: they share ``alpha``, and the last one ends the
    climb."""
    patience: int = Field(3, ge=1)
    """After this many generations without an acceptance, changes may be twice as large; after twice as many, three
    times as large."""
    seed: int = Field(0, ge=0)
    """Random seed from which the trials' seeds and the proposers' choices derive."""


class SweepConfig(BaseModel):
    """The configuration of one sweep: one YAML file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str = Field("starter", min_length=1)
    """A folder of tasks, or the name of a shipped dataset."""
    split: Literal["dev", "holdout", "all"] = "dev"
    """Part of the dataset to run. A model runs on holdout tasks only under an explicit ``split: holdout``; ``all`` is
    for ``oracle`` and ``nop``."""
    include: tuple[str, ...] = ()
    """Globs of the task names to run; empty: all."""
    exclude: tuple[str, ...] = ()
    """Globs of task names to leave out."""
    tags: tuple[str, ...] = ()
    """Run only tasks that have all of these tags."""
    limit: int | None = Field(None, ge=1)
    """Run at most this many tasks."""
    agents: tuple[AgentName, ...] = Field(("raw", "best_of_n", "hc"), min_length=1)
    """Agents that attempt every task; ``module:Class`` names your own (docs/python.md)."""
    seeds: int = Field(1, ge=1, le=10_000)
    """Trials per task, agent and config, each with a seed of its own."""
    first_seed: int = Field(0, ge=0)
    """The first of these seeds; the others follow it."""
    configs: tuple[dict[str, Any], ...] = ()
    """Named configs to compare: each a ``name`` and the settings below ``solver``, ``budget``, ``engine`` or ``roles``
    in which it differs from the file's own, such as ``{name: wide, solver.samples: 8}``."""
    grid: dict[str, tuple[Any, ...]] = {}
    """Settings to vary, each with its values, such as ``solver.samples: [2, 4]``. Every combination is a config; with
    ``configs``, every combination of each."""
    solver: SolverConfig = SolverConfig()
    budget: BudgetConfig = BudgetConfig()
    engine: EngineConfig = EngineConfig()
    """The engine of every role that ``roles`` does not list."""
    roles: dict[RoleName, EngineConfig] = {}
    """Separate engines for single roles. ``tester`` may be a list, whose engines all write tests for the same suite."""
    search: Literal["sweep", "climb"] = "sweep"
    """What ``hc-ray sweep`` runs: these settings, or a climb that starts from them, as ``hc-ray climb`` does."""
    climb: ClimbSettings | None = None
    """Terms of a climb; None: the defaults."""
    sandbox: Literal["auto", "docker", "bwrap"] = "auto"
    """Sandbox backend. ``auto`` uses Docker if it responds and has (or can pull) the images of at least as many tasks
    as bubblewrap takes, else bubblewrap; the plan names the reason."""
    grading: Literal["isolated", "shared"] = "isolated"
    """``isolated``: grade in a fresh sandbox of the task's image with the submission applied, unless the task asks for
    another mode. ``shared`` (Harbor's default): grade in the candidate's own running sandbox, except for tasks whose
    verifier has its own image; needs Docker."""
    pass_threshold: float = Field(1.0, gt=0, le=1)
    """Minimum reward of a pass. Below 1, a partial reward passes only if the tests' own counts confirm it."""
    network: Literal["mention", "task"] = "mention"
    """Network policy. ``mention``: a network only if task.toml declares one; ``task``: Harbor's default (public)."""
    retries: RetryConfig = RetryConfig()
    """Retries after failures outside the sandboxes."""
    concurrency: int | None = Field(None, ge=1)
    """Trials to run at the same time; None: as many as the engine and the sandboxes can use."""
    sandbox_slots: int | None = Field(None, ge=1)
    """Maximum number of busy sandboxes per node; None: one per core, minus one core if an engine shares the node."""
    out: str | None = Field(None, min_length=1)
    """The sweep directory; None: ``runs/<dataset>-<time>``."""
    mlflow_uri: str | None = Field(None, min_length=1)
    """An MLflow tracking server; None: SQLite beside the sweep directory. ``none`` switches tracking off."""

    @field_validator("configs", mode="before")
    @classmethod
    def _names_configs(cls, configs: Any) -> Any:
        return named_configs(configs, cls.model_fields)

    @field_validator("grid", mode="before")
    @classmethod
    def _lists_values(cls, grid: Any) -> Any:
        return value_lists(grid, cls.model_fields)

    @field_validator("roles", mode="before")
    @classmethod
    def _lists_testers(cls, roles: Any) -> Any:
        """Turn a list of testers into the tester roles, in order."""
        listed = roles.get("tester") if isinstance(roles, dict) else None
        if not isinstance(listed, list | tuple):
            return roles
        if not 0 < len(listed) <= len(TESTERS):
            raise ValueError(f"tester lists {len(listed)} engines; allowed: 1 to {len(TESTERS)}")
        others = {role: engine for role, engine in roles.items() if role not in TESTERS}
        return {**others, **dict(zip(TESTERS, listed, strict=False))}

    @field_validator("out", "mlflow_uri")
    @classmethod
    def _has_no_secret(cls, place: str | None, info: ValidationInfo) -> str | None:
        if place and "://" in place and (fault := url_fault(place)):
            keys = "MLFLOW_TRACKING_USERNAME, …_PASSWORD or …_TOKEN" if info.field_name != "out" else "AWS_…"
            raise ValueError(f"the URI {fault}; set the environment variables {keys} instead")
        return place

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if len(set(self.agents)) < len(self.agents):
            raise ValueError("agents lists the same agent twice")
        if self.split == "holdout" and (self.grid or len(self.configs) > 2):
            raise ValueError("split: holdout runs at most two configs, each with a name under configs, and no grid")
        if "hc" in self.agents and self.solver.testgen.budget_tokens >= self.budget.tokens:
            raise ValueError(
                f"budget.tokens ({self.budget.tokens}) must be greater than solver.testgen.budget_tokens "
                f"({self.solver.testgen.budget_tokens}), which it includes"
            )
        return self

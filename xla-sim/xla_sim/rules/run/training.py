"""Rules about faults of the training itself that a move to an XLA device brings out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xla_sim.rules.base import Rule
from xla_sim.trace import Fact, Finding, Location, Optimizer, Trace

ENOUGH = 2  # optimizer steps after which "never" means something


class StaleOptimizer(Rule):
    """The optimizer holds parameters that the model no longer uses."""

    code = "XLA301"
    name = "stale-optimizer"
    severity = "error"

    def check(self, trace: Trace) -> Iterable[Finding]:
        """
        Moving a model to an XLA device makes new parameters. An optimizer that was built before holds the old ones: it
        steps, the loss is computed, and the model never changes. The same happens when a layer is replaced afterwards, or
        when adapters are added and everything else is frozen.

        **Why a TPU cares.** On a GPU `.to()` changes parameters in place, so the same script trains there and silently
        doesn't here.

        **Bad**

        ```python
        optimizer = torch.optim.Adam(model.parameters())
        model = model.to(device)
        ```

        **Good**

        ```python
        model = model.to(device)
        optimizer = torch.optim.Adam(model.parameters())
        ```

        **Source.** The optimizer's parameters, those of the modules that were called, and which of them had gradients at the
        optimizer steps.
        """
        for optimizer in trace.optimizers:
            stale = [entry for entry in optimizer.without_grad if entry[2] or not optimizer.replaced]
            if not stale or not optimizer.orphans:
                continue
            names = list(optimizer.orphans)
            yield self.finding(
                f"{optimizer.name} holds {len(stale)} of {optimizer.parameters} parameters that the model no longer uses; "
                f"the ones it trains ({_list(names)}) are in no optimizer"
                if optimizer.replaced
                else f"none of the {optimizer.parameters} parameters of {optimizer.name} ever received a gradient; "
                f"the ones that do ({_list(names)}) are in no optimizer",
                "build the optimizer after model.to(device), and after any layer is replaced or added",
                optimizer.created,
                optimizer=optimizer.name,
                stale=[{"shape": list(shape)} for _, shape, _ in stale],
                trained_by_nobody=names,
                steps=optimizer.steps,
            )


class FrozenParameters(Rule):
    """Parameters given to the optimizer never receive a gradient."""

    code = "XLA302"
    name = "frozen-parameters"
    severity = "warning"

    def check(self, trace: Trace) -> Iterable[Finding]:
        """
        At every optimizer step some of its parameters had no gradient: they are cut off from the loss (`detach()`,
        `torch.no_grad()`, an unused layer), or `requires_grad` is off.

        **Why a TPU cares.** They hold HBM, and the part of the model that was meant to learn doesn't.

        **Bad**

        ```python
        features = backbone(x).detach()                     # and yet backbone is in the optimizer
        ```

        **Good**

        ```python
        optimizer = torch.optim.Adam(head.parameters())     # only what learns
        ```

        **Source.** `.grad` of every parameter at the optimizer steps. Parameters with `requires_grad` off are mentioned as
        information: that is often meant.
        """
        for optimizer in trace.optimizers:
            if optimizer.orphans or optimizer.steps < ENOUGH:
                continue  # stale-optimizer says it, or it's too early to say never
            for cut, severity in ((True, "warning"), (False, "info")):
                frozen = [(name, shape) for name, shape, grad in optimizer.without_grad if grad is cut]
                if frozen:
                    yield self._finding(optimizer, frozen, severity)

    def _finding(self, optimizer: Optimizer, frozen: Sequence[tuple[str, tuple[int, ...]]], severity: str) -> Finding:
        names = [name or "x".join(map(str, shape)) or "a scalar" for name, shape in frozen]
        why = "" if severity == "warning" else " (requires_grad is off)"
        return self.finding(
            f"{len(frozen)} of {optimizer.parameters} parameters of {optimizer.name} never received a gradient in "
            f"{optimizer.steps} steps{why}: {_list(names)}",
            "connect them to the loss, or leave them out of the optimizer",
            optimizer.created,
            severity,
            optimizer=optimizer.name,
            parameters=names,
            steps=optimizer.steps,
        )


class MissingZeroGrad(Rule):
    """Gradients are never cleared between optimizer steps."""

    code = "XLA303"
    name = "missing-zero-grad"
    severity = "warning"

    def check(self, trace: Trace) -> Iterable[Finding]:
        """
        Every backward pass adds to the gradients of all steps before, so the optimizer follows a sum that never ends.
        Several backward passes between two optimizer steps (gradient accumulation) are fine.

        **Why a TPU cares.** It is the same fault everywhere; here it shows before hours on a pod are spent on it.

        **Bad**

        ```python
        loss.backward()
        optimizer.step()
        ```

        **Good**

        ```python
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ```

        **Source.** The identity and version of each gradient at successive optimizer steps, and every way of clearing one:
        `zero_grad` of optimizer and module, `zero_()`, `fill_(0)`, and setting it to None.
        """
        for optimizer in trace.optimizers:
            seen = optimizer.uncleared_of
            if optimizer.uncleared < ENOUGH or optimizer.uncleared * 4 < seen * 3:
                continue
            yield self.finding(
                f"{optimizer.name} stepped {optimizer.steps} times and its gradients still held those of the step before, "
                f"{optimizer.uncleared} of {seen} times looked at",
                "call optimizer.zero_grad() before each backward pass, or after each optimizer step",
                optimizer.stepped,
                optimizer=optimizer.name,
                uncleared=optimizer.uncleared,
                looked_at=seen,
            )


class BrokenTie(Rule):
    """Parameters that shared storage before `.to(device)` no longer do."""

    code = "XLA304"
    name = "broken-tie"
    severity = "error"

    def check(self, trace: Trace) -> Iterable[Finding]:
        """
        Moving a model to an XLA device copies each parameter. Two names for one tensor (an embedding tied to the output
        layer) become two tensors that learn apart.

        **Why a TPU cares.** The model is another one than on the GPU, and holds the tensor twice in HBM.

        **Bad**

        ```python
        model.head.weight = model.embedding.weight
        model.to(device)
        ```

        **Good**

        ```python
        model.to(device)
        model.head.weight = model.embedding.weight          # tie again, on the device
        ```

        **Source.** The storage of all parameters before and after the move, and again when training begins.
        """
        for fact in trace.facts_named("tie-broken"):
            names: list[str] = list(fact.values["names"])
            yield self.finding(
                f"{' and '.join(names)} were one tensor before the move to the device and are {len(names)} now",
                "tie them again after .to(device)",
                fact.location,
                **fact.values,
            )


class NonFinite(Rule):
    """The loss or a parameter became NaN or infinite."""

    code = "XLA305"
    name = "nonfinite"
    severity = "error"

    def check(self, trace: Trace) -> Iterable[Finding]:
        """
        From that step on training computes nothing.

        **Why a TPU cares.** bfloat16 has 8 bits of precision, so a loss that is fragile in float32 breaks sooner there.

        **Bad**

        ```python
        loss = -torch.log(probability).mean()               # log(0)
        ```

        **Good**

        ```python
        loss = F.cross_entropy(logits, target)              # stable by construction
        ```

        **Source.** The loss of each step, read two steps later when nothing waits for it, and the parameters at the end.
        """
        for fact in trace.facts_named("nonfinite"):
            what = fact.values["what"]
            where = fact.location if fact.location.line else _last_training(trace)
            yield self.finding(
                f"{what} became {fact.values['became']}"
                + (f", first at step {fact.step}" if what == "the loss" else " at the end of the run"),
                "lower the learning rate, clip gradients, or use the numerically stable form of the loss",
                where,
                step=fact.step,
                what=what,
                became=fact.values["became"],
            )


def _last_training(trace: Trace) -> Location:
    return trace.optimizers[-1].stepped if trace.optimizers else Location()


class DeviceCheckpoint(Rule):
    """Tensors were pickled while on the XLA device."""

    code = "XLA306"
    name = "device-checkpoint"
    severity = "warning"

    def check(self, trace: Trace) -> Iterable[Finding]:
        """
        `torch.save` of tensors on the XLA device reads them one by one and writes a file that can only be read where such a
        device exists.

        **Why a TPU cares.** Each tensor is a wait of its own, and the checkpoint can't be opened on a laptop.

        **Bad**

        ```python
        torch.save(model.state_dict(), path)
        ```

        **Good**

        ```python
        torch.save({k: v.cpu() for k, v in model.state_dict().items()}, path)   # or xm.save
        ```

        **Source.** Calls of the pickling protocol of tensors on the device.
        """
        by_line: dict[tuple[str, int], list[Fact]] = {}
        for fact in trace.facts_named("pickled"):
            by_line.setdefault((fact.location.file, fact.location.line), []).append(fact)
        for facts in by_line.values():
            yield self.finding(
                "tensors were pickled while on the XLA device",
                "move the state to the CPU first: {k: v.cpu() for k, v in state.items()}, or use xm.save",
                facts[0].location,
                step=facts[0].step,
                shape=facts[0].values["shape"],
            )


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

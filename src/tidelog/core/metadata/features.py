"""UpdateFeatures: other levels of features, for a cluster that runs (KIP-584).

Which levels a release can do is the business of its shell (`controller.features`).
"""

from tidelog.core.errors import Error
from tidelog.core.metadata.decision import Decision, View
from tidelog.core.metadata.records import FeatureLevel
from tidelog.core.requests import AdminResponse, UpdateFeaturesRequest


def decide_update_features(view: View, request: UpdateFeaturesRequest) -> Decision:
    """A level that a feature has already needs no record."""
    records = [
        FeatureLevel(name, level)
        for name, level in request.levels
        if view.image.features.get(name, 0) != level
    ]
    assert all(record.level > 0 for record in records), f"the next claim would undo {records}"
    return Decision(AdminResponse(Error.NONE), tuple(records))

"""Names that are sparkflow's own and may still change."""

from sparkflow.session.explain import explain, explain_graph_def

__all__ = ["explain", "explain_graph_def"]

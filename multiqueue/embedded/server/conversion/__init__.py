"""Objects of a kind whose definition names a conversion webhook, in its other versions."""

from multiqueue.embedded.server.conversion.conversions import Conversions

__all__ = ["Conversions"]

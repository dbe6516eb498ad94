"""Everything a service owns beside its slots, in the order in which it is applied.

The admin key comes first, because no engine starts without it; then what protects running pods; then the gateway.
"""

from mtpilot.api.inference_service import CalibrationMode
from mtpilot.model.plan import EnsureSecret
from mtpilot.model.snapshot import DEFAULT_IMAGES, GatewayImages, HardwareView, Manifest, Service

from .calibration import render_calibration_access
from .disruption import render_disruption_budget
from .gateway import render_gateway
from .secret import render_admin_secret


def render_children(
    service: Service, hardware: HardwareView | None, limit: int | None = None, images: GatewayImages = DEFAULT_IMAGES
) -> tuple[Manifest | EnsureSecret, ...]:
    """All objects except slots. They do not need the hardware class to exist, so a gateway answers even while it is missing.

    limit: the contention limit that the gateway is told, see `render.routing`. images: of the gateway's containers.
    """
    measured = service.spec.profile.calibration is not CalibrationMode.NEVER
    access = render_calibration_access(service) if measured else ()
    return (render_admin_secret(service), render_disruption_budget(service), *render_gateway(service, hardware, limit, images), *access)

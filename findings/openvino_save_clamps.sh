#!/usr/bin/env bash
# OpenVINO 2026.4.1, save_model: weights beyond float16's range become 65504 in the file, without a
# word, unless three quarters of a tensor are beyond it.
#
# save_model stores float16 by default (the input and the output stay float32). A weight of 1e6 in a
# tensor of others is 65504 in the file; so is infinity. Where 75 % or more are out of range the
# tensor stays float32 and exact. A weight of 2e-8 becomes 0. The model in memory computes with 1e6,
# the one read from the file with 65504.
source "$(dirname "$0")/common.sh"
packages openvino==2026.4.1 numpy==2.4.6

cat > "$STATED" << 'END'
one of four large: stored as f16; computed before 1 2 3 1e+06, after 1 2 3 65504
two of four: stored as f16; computed before 1 2 2e+06 1e+06, after 1 2 65504 65504
three of four: stored as f32; computed before 1 3e+06 2e+06 1e+06, after 1 3e+06 2e+06 1e+06
one infinite: stored as f16; computed before 1 2 3 inf, after 1 2 3 65504
one tiny: stored as f16; computed before 1 2 3 2e-08, after 1 2 3 0
END
"$bin/python" > "$SEEN" << 'END'
import numpy as np
import openvino as ov
from openvino import opset13 as ops

core = ov.Core()


def tell(title, values):
    weights = np.array(values, np.float32)
    x = ops.parameter([len(weights)], np.float32)
    model = ov.Model([ops.multiply(x, ops.constant(weights))], [x])
    ov.save_model(model, "model.xml")
    back = core.read_model("model.xml")
    stored = [o for o in back.get_ops() if o.get_type_name() == "Constant"][0]
    one = np.ones(len(weights), np.float32)
    y = [core.compile_model(m, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([one])[0]
         for m in (model, back)]
    print("%s: stored as %s; computed before %s, after %s" % (
        title, stored.get_element_type().get_type_name(),
        " ".join("%.6g" % v for v in y[0]), " ".join("%.6g" % v for v in y[1])))


tell("one of four large", [1, 2, 3, 1e6])
tell("two of four", [1, 2, 2e6, 1e6])
tell("three of four", [1, 3e6, 2e6, 1e6])
tell("one infinite", [1, 2, 3, np.inf])
tell("one tiny", [1, 2, 3, 2e-8])
END
compare

"""tf.saved_model.signature_constants."""

DEFAULT_SERVING_SIGNATURE_DEF_KEY = "serving_default"
CLASSIFY_INPUTS = REGRESS_INPUTS = PREDICT_INPUTS = "inputs"
CLASSIFY_METHOD_NAME = "tensorflow/serving/classify"
CLASSIFY_OUTPUT_CLASSES, CLASSIFY_OUTPUT_SCORES = "classes", "scores"
PREDICT_METHOD_NAME = "tensorflow/serving/predict"
PREDICT_OUTPUTS = REGRESS_OUTPUTS = "outputs"
REGRESS_METHOD_NAME = "tensorflow/serving/regress"

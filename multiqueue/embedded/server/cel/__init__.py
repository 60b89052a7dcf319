"""CEL: the validation rules of custom resources and the match conditions of webhooks."""

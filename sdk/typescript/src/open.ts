// Generated from api/openapi.yaml by make sdk-generate.
export const openFields = ["areas","credentials","details","env","events","home","labels","policy","value_json"];

// Generated from api/openapi.yaml by make sdk-generate.
export const openFields = ["acknowledged","areas","credentials","details","env","environment","events","home","labels","policy","value_json"];

// Generated from api/openapi.yaml by make sdk-generate.
export const openFields = ["areas","credentials","env","events","home","labels","policy"];

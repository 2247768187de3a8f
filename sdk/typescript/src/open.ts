// Generated from api/openapi.yaml by make sdk-generate.
export const openFields = ["credentials","env","events","labels","policy"];

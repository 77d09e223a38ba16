// @ts-check
// Starts the viewer of the API's description.

/** @type {any} */ (globalThis).SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#viewer",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  // Nothing leaves this host.
  validatorUrl: null,
  queryConfigEnabled: false,
});

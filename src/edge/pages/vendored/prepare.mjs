// Makes the files in this directory from four npm packages. Needs node only:
//
//     npm pack swagger-ui-dist@5.35.0 us-atlas@3.0.1 uplot@1.6.32 leaflet@1.9.4       (then unpack them)
//     node prepare.mjs SWAGGER_UI_DIST_DIRECTORY US_ATLAS_DIRECTORY UPLOT_DIRECTORY LEAFLET_DIRECTORY
//
// The build of grandstand does not run this: what it makes is checked in.

import { readFileSync, writeFileSync, copyFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants } from "node:zlib";

const [swagger, atlas, uplot, leaflet] = process.argv.slice(2);
const here = import.meta.dirname;

// --- the viewer and the map: compressed once, well -----------------------------------------------------------------------

for (const [from, name] of [[swagger, "swagger-ui-bundle.js"], [swagger, "swagger-ui.css"], [join(leaflet, "dist"), "leaflet.js"], [join(leaflet, "dist"), "leaflet.css"]]) {
  const text = readFileSync(join(from, name), "utf8").replace(/\n?(\/\/|\/\*)# sourceMappingURL=\S+( \*\/)?\s*$/, "\n");
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: 11,
    [constants.BROTLI_PARAM_LGWIN]: 22,
    [constants.BROTLI_PARAM_SIZE_HINT]: text.length,
  };
  writeFileSync(join(here, `${name}.br`), brotliCompressSync(text, { params }));
}
copyFileSync(join(swagger, "LICENSE"), join(here, "swagger-ui.LICENSE"));
copyFileSync(join(swagger, "NOTICE"), join(here, "swagger-ui.NOTICE"));
copyFileSync(join(swagger, "swagger-ui-bundle.js.LICENSE.txt"), join(here, "swagger-ui-bundle.js.LICENSE.txt"));
copyFileSync(join(atlas, "LICENSE"), join(here, "us-atlas.LICENSE"));
copyFileSync(join(uplot, "LICENSE"), join(here, "uPlot.LICENSE"));
copyFileSync(join(leaflet, "LICENSE"), join(here, "leaflet.LICENSE"));
for (const name of ["uPlot.iife.min.js", "uPlot.min.css"]) copyFileSync(join(uplot, "dist", name), join(here, name));

// --- the outlines: simplified, in hundredths of a degree ----------------------------------------------------------------

/** Drop a point whose triangle with its neighbours is smaller than this, in square degrees. */
const LEAST_AREA = 0.002;
/** Drop an island that is smaller than this, in square degrees, unless it is all that a state has. */
const LEAST_ISLAND = 0.008;

const topology = JSON.parse(readFileSync(join(atlas, "states-10m.json"), "utf8"));
const { scale, translate } = topology.transform;

const area = ([ax, ay], [bx, by], [cx, cy]) => Math.abs((bx - ax) * (cy - ay) - (cx - ax) * (by - ay)) / 2;

/** Visvalingam's rule: the least important point goes first. Ends stay, so that neighbours still fit together. */
function simplified(points) {
  const kept = [...points];
  const closed = kept.length > 3 && kept[0][0] === kept.at(-1)[0] && kept[0][1] === kept.at(-1)[1];
  while (kept.length > (closed ? 4 : 2)) {
    let least = Infinity;
    let at = -1;
    for (let i = 1; i < kept.length - 1; i += 1) {
      const size = area(kept[i - 1], kept[i], kept[i + 1]);
      if (size < least) [least, at] = [size, i];
    }
    if (least >= LEAST_AREA) break;
    kept.splice(at, 1);
  }
  return kept;
}

const arcs = topology.arcs.map((arc) => {
  let x = 0;
  let y = 0;
  const points = arc.map(([dx, dy]) => [(x += dx) * scale[0] + translate[0], (y += dy) * scale[1] + translate[1]]);
  return simplified(points).map(([px, py]) => [Math.round(px * 100), Math.round(py * 100)]);
});

const ring = (indexes) => indexes.flatMap((index, nth) => {
  const points = index < 0 ? [...arcs[~index]].reverse() : arcs[index];
  return nth === 0 ? points : points.slice(1);
});
const size = (points) => Math.abs(points.reduce((sum, [x, y], i) => {
  const [nx, ny] = points[(i + 1) % points.length];
  return sum + x * ny - nx * y;
}, 0)) / 20000;

/** Longitude and latitude of the first point, then the steps to the next ones; islands beyond the date line are in the west. */
function steps(points) {
  const west = points[0][0] > 0 ? 36000 : 0;
  let [x, y] = [0, 0];
  return points.slice(0, -1).flatMap(([nx, ny], nth) => {
    const step = [nx - west - x, ny - y];
    [x, y] = [nx - west, ny];
    return nth > 0 && step[0] === 0 && step[1] === 0 ? [] : step;
  });
}

/** The 50 states and the District of Columbia. */
const NUMBER = 56;
const shown = topology.objects.states.geometries.filter((state) => Number(state.id) <= NUMBER);
const states = shown.map((state) => {
  const polygons = state.type === "Polygon" ? [state.arcs] : state.arcs;
  const rings = polygons.map(([outer]) => ring(outer)).sort((one, two) => size(two) - size(one));
  return [state.properties.name, rings.filter((points, nth) => nth === 0 || size(points) >= LEAST_ISLAND).map(steps)];
});
states.sort(([one], [other]) => (one < other ? -1 : 1));
writeFileSync(join(here, "states.json"), `[\n${states.map((state) => JSON.stringify(state)).join(",\n")}\n]\n`);

"use strict";
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const palettes = {
    light: ["#5b6472", "#c2410c", "#0b6e4f", "#7c3aed", "#0369a1", "#a16207"],
    dark: ["#aab3c2", "#ff9a5c", "#5fd3a6", "#b79cff", "#6cc3f5", "#e8c25a"],
  };
  // Of the six policies the last two are the SDK's: they get the colour of "after" and its neighbour.
  const policies = {
    light: ["#e58b7b", "#b42318", "#a16207", "#7c3aed", "#0b6e4f", "#5fae92"],
    dark: ["#c4574a", "#ff8a7a", "#e8c25a", "#b79cff", "#5fd3a6", "#2f8f6b"],
  };
  const font = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function dressed(id, option) {
    const mode = dark.matches ? "dark" : "light";
    const ink = colour("--ink"), soft = colour("--soft"), line = colour("--line");
    const o = structuredClone(option);
    o.color = (id.startsWith("chain") ? policies : palettes)[mode];
    o.backgroundColor = "transparent";
    o.textStyle = { color: ink, fontFamily: font };
    const all = (v) => (Array.isArray(v) ? v : v ? [v] : []);
    for (const legend of all(o.legend)) {
      legend.textStyle = { color: ink };
      legend.pageTextStyle = { color: ink };
      legend.pageIconColor = ink;
      legend.pageIconInactiveColor = line;
      legend.inactiveColor = soft;
      legend.itemWidth = id.startsWith("chain") ? 18 : 30;
    }
    for (const axis of [...all(o.xAxis), ...all(o.yAxis)]) {
      axis.axisLabel = { ...axis.axisLabel, color: soft };
      axis.nameTextStyle = { color: soft };
      axis.axisLine = { lineStyle: { color: line } };
      axis.splitLine = { show: all(o.yAxis).includes(axis), lineStyle: { color: line } };
    }
    for (const tip of all(o.tooltip)) {
      tip.confine = true;
      tip.backgroundColor = colour("--raised");
      tip.borderColor = line;
      tip.textStyle = { color: ink };
    }
    if (id.startsWith("chain")) {
      const narrow = document.getElementById(id).clientWidth < 640;
      for (const legend of all(o.legend)) legend.type = "plain";
      for (const box of all(o.grid)) box.top = narrow ? 104 : 56;
      for (const axis of all(o.yAxis)) axis.axisLabel.formatter = (v) => (v < 1 ? "" : v);
    } else {
      const x = all(o.xAxis)[0];
      x.axisLabel.formatter = (v) => v + " s";
      x.name = "";
      all(o.tooltip)[0].formatter = (points) => tip(points);
    }
    // Lines differ in more than their colour: the chains' by their symbols, the others by their dashes.
    const dashes = all(o.series).length > 2 ? ["dotted", "solid", "dashed"] : ["dashed", "solid"];
    for (const [i, series] of all(o.series).entries()) {
      if (series.type === "line") {
        series.lineStyle = { width: 2 };
        if (!id.startsWith("chain")) {
          series.lineStyle.type = dashes[i % dashes.length];
          series.symbol = "circle"; // an empty one is white in the legend, in the dark, too
        }
      }
      if (series.markArea) {
        series.markArea.silent = true;
        series.markArea.itemStyle = { color: colour("--fault") };
        series.markArea.label = { color: soft, position: "top" };
      }
    }
    return o;
  }

  function tip(points) {
    const lines = points.map((p) => {
      return p.marker + " " + p.seriesName + ": <b>" + (p.value[1] === null ? "–" : Math.round(p.value[1] * 10) / 10) + "</b>";
    });
    return points[0].value[0] + " s<br>" + lines.join("<br>");
  }

  const drawn = new Map();
  function draw() {
    for (const [id, option] of Object.entries(stormOptions)) {
      const place = document.getElementById(id);
      if (!place) continue;
      place.style.display = "block";
      drawn.get(id)?.dispose();
      const chart = echarts.init(place, null, { renderer: "svg" });
      chart.setOption(dressed(id, option));
      drawn.set(id, chart);
    }
  }
  draw();
  dark.addEventListener("change", draw);
  let waiting = 0;
  window.addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(draw);
  });
})();

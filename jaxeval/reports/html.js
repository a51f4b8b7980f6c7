
document.getElementById("sort").addEventListener("change", (event) => {
  const articles = [...document.querySelectorAll("article")];
  const key = { order: (a) => +a.dataset.order, low: (a) => +a.dataset.score, high: (a) => -a.dataset.score }[event.target.value];
  articles.sort((a, b) => key(a) - key(b)).forEach((article) => article.parentNode.append(article));
});
for (const picture of document.querySelectorAll(".spectrogram")) {
  const audio = picture.nextElementSibling;
  const show = () => { picture.lastElementChild.style.left = `${100 * audio.currentTime / (audio.duration || 1)}%`; };
  audio.addEventListener("timeupdate", show);
  audio.addEventListener("seeked", show);
  audio.addEventListener("play", () => {
    for (const other of document.querySelectorAll("audio")) if (other !== audio) other.pause();
    const step = () => { show(); if (!audio.paused) requestAnimationFrame(step); };
    step();
  });
  picture.addEventListener("click", (event) => {
    audio.currentTime = (event.offsetX / picture.clientWidth) * audio.duration;
    audio.play();
  });
}

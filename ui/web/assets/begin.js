// The first script of every page: it fetches the rest, which may not come.
import(document.querySelector('link[rel=modulepreload]').href).catch(async (e) => {
  const { again, tell } = await import('./again.js');
  await again(e).catch(tell);
});
